"""For tests of applications: public fakes of models and agents, and a suite that chat stores must pass."""
