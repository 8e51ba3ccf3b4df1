"""One module for each kind of fault. The mix finds them by their being here."""
