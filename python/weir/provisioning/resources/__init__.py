"""The nodes, devices and deployments of a site."""
