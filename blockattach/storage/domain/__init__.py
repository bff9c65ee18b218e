"""Pure rules: values in, values out. No oslo, no database, no clock."""
