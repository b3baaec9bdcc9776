package model

// Preset is the LM head of a well-known model: the shape to emit and tune for when its files are not at hand.
type Preset struct {
	Name      string   // such as "qwen3-8b"
	Repos     []string // Hugging Face repositories with this head; the first one's config.json is the source
	ModelType string
	V, D      int // vocab_size and hidden_size of config.json
	Tied      bool
	Scale     float64 // the logits are multiplied by this first; 1 if there is none
	Softcap   float64 // 0 if there is none
	Note      string  // often empty
}

// presets in the order of All. The values are those of config.json in the first repository, whether the model's or
// the default that transformers assumes for the key; testdata/hf holds the keys that matter for a test to compare.
var presets = []Preset{
	plain("qwen3-0.6b", "qwen3", 151936, 1024, Tied, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B-Base"),
	plain("qwen3-1.7b", "qwen3", 151936, 2048, Tied, "Qwen/Qwen3-1.7B", "Qwen/Qwen3-1.7B-Base"),
	plain("qwen3-4b", "qwen3", 151936, 2560, Tied, "Qwen/Qwen3-4B", "Qwen/Qwen3-4B-Base",
		"Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B-Thinking-2507"),
	plain("qwen3-8b", "qwen3", 151936, 4096, Untied, "Qwen/Qwen3-8B", "Qwen/Qwen3-8B-Base"),
	plain("qwen3-14b", "qwen3", 151936, 5120, Untied, "Qwen/Qwen3-14B", "Qwen/Qwen3-14B-Base"),
	plain("qwen3-32b", "qwen3", 151936, 5120, Untied, "Qwen/Qwen3-32B"),
	plain("qwen3-30b-a3b", "qwen3_moe", 151936, 2048, Untied, "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B-Base",
		"Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B-Thinking-2507"),
	plain("qwen3-235b-a22b", "qwen3_moe", 151936, 4096, Untied, "Qwen/Qwen3-235B-A22B",
		"Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen/Qwen3-235B-A22B-Thinking-2507"),

	plain("llama3.2-1b", "llama", 128256, 2048, Tied, "meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-1B-Instruct"),
	plain("llama3.2-3b", "llama", 128256, 3072, Tied, "meta-llama/Llama-3.2-3B", "meta-llama/Llama-3.2-3B-Instruct"),
	plain("llama3-8b", "llama", 128256, 4096, Untied, "meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B-Instruct",
		"meta-llama/Llama-3-8B", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B"),
	plain("llama3-70b", "llama", 128256, 8192, Untied, "meta-llama/Meta-Llama-3-70B", "meta-llama/Meta-Llama-3-70B-Instruct",
		"meta-llama/Llama-3-70B", "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B",
		"meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B"),
	plain("llama3-405b", "llama", 128256, 16384, Untied, "meta-llama/Llama-3.1-405B", "meta-llama/Llama-3.1-405B-Instruct",
		"meta-llama/Meta-Llama-3.1-405B"),

	plain("gemma2-2b", "gemma2", 256000, 2304, Tied, "google/gemma-2-2b", "google/gemma-2-2b-it").cap(30),
	plain("gemma2-9b", "gemma2", 256000, 3584, Tied, "google/gemma-2-9b", "google/gemma-2-9b-it").cap(30),
	plain("gemma2-27b", "gemma2", 256000, 4608, Tied, "google/gemma-2-27b", "google/gemma-2-27b-it").cap(30),
	plain("gemma3-1b", "gemma3_text", 262144, 1152, Tied, "google/gemma-3-1b-it", "google/gemma-3-1b-pt", "google/gemma-3-1b"),
	gemma3("gemma3-4b", 2560, "google/gemma-3-4b-it", "google/gemma-3-4b-pt", "google/gemma-3-4b"),
	gemma3("gemma3-12b", 3840, "google/gemma-3-12b-it", "google/gemma-3-12b-pt", "google/gemma-3-12b"),
	gemma3("gemma3-27b", 5376, "google/gemma-3-27b-it", "google/gemma-3-27b-pt", "google/gemma-3-27b"),

	plain("deepseek-v3", "deepseek_v3", 129280, 7168, Untied, "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3-Base",
		"deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3.1", "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-R1"),
	plain("kimi-k2", "kimi_k2", 163840, 7168, Untied, "moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2-Base", "moonshotai/Kimi-K2-Thinking"),
	plain("gpt-oss-20b", "gpt_oss", 201088, 2880, Untied, "openai/gpt-oss-20b"),
	plain("gpt-oss-120b", "gpt_oss", 201088, 2880, Untied, "openai/gpt-oss-120b"),
	plain("phi-4", "phi3", 100352, 5120, Untied, "microsoft/phi-4"),
	plain("command-r", "cohere", 256000, 8192, Tied, "CohereLabs/c4ai-command-r-v01", "CohereForAI/c4ai-command-r-v01").times(0.0625),
	plain("command-r-plus", "cohere", 256000, 12288, Tied, "CohereLabs/c4ai-command-r-plus", "CohereForAI/c4ai-command-r-plus").times(0.8333333333333334),
	plain("command-r7b", "cohere2", 256000, 4096, Tied, "CohereLabs/c4ai-command-r7b-12-2024", "CohereForAI/c4ai-command-r7b-12-2024").times(0.25),
	plain("mistral-small-3", "mistral", 131072, 5120, Untied, "mistralai/Mistral-Small-24B-Instruct-2501", "mistralai/Mistral-Small-24B-Base-2501"),
	plain("mistral-large-3", "mistral3", 131072, 7168, Untied, "mistralai/Mistral-Large-3-675B-Instruct-2512", "mistralai/Mistral-Large-3-675B-Base-2512").
		note("taken from the model's descriptions (DeepSeek-V3's architecture, Mistral's 131072-token vocabulary), not compared with its config.json"),
}

func plain(name, modelType string, v, d int, tie Tie, repos ...string) Preset {
	return Preset{Name: name, ModelType: modelType, V: v, D: d, Tied: tie == Tied, Scale: 1, Repos: repos}
}

// gemma3 is a multimodal Gemma 3. Its text_config leaves vocab_size out; the default of gemma3_text is 262208, the
// rows that the weights have, of which the tokenizer uses 262145.
func gemma3(name string, d int, repos ...string) Preset {
	return plain(name, "gemma3_text", 262208, d, Tied, repos...).
		note("the tokenizer uses ids below 262145; mask the rest or set the vocabulary lower")
}

func (p Preset) cap(c float64) Preset   { p.Softcap = c; return p }
func (p Preset) times(s float64) Preset { p.Scale = s; return p }
func (p Preset) note(n string) Preset   { p.Note = n; return p }
