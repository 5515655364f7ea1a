"""Adapters that execute a workload: one folder or file each, all of the shape of load.session.Engine."""
