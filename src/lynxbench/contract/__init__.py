"""A contract file becomes a Contract: strict loader, schema, template, differences, bundled contracts."""
