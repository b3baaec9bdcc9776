package verify

func exact(*run) []item { return nil }
func full(*run) []item  { return nil }
