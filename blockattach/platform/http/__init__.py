"""HTTP machinery: what a request goes through before and after a handler; knows no resource."""
