"""Any AG-UI agent behind one endpoint, with history. Stands on both towers."""
