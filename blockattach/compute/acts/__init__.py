"""Acts on servers, as steps that are undone on failure and steps that are always finished."""
