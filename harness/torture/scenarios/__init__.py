"""One module for each scenario. They are found by being here."""
