"""The command line, above every other layer, by what people do: run, look, act, study."""
