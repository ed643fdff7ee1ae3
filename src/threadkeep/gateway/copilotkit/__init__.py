"""CopilotKit's runtime protocol on the gateway's runs and threads: its frontends need no runtime of their own."""
