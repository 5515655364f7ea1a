"""Adapters that execute a workload: one folder or file each, all of the shape of load.engine_session.Engine."""
