// Samples with a kernel of fsgen's from C++: the header that fsgen emit wrote, the driver API, and nothing else.
//
//	fsgen emit --arch sm_90 --vocab 5000 --hidden 264 --batch 5 --format h -o kernels
//	go run ./examples/inputs inputs
//	make -C examples/cpp HEADER=$PWD/kernels/NAME.h && examples/cpp/sample inputs
//
// Any kernel with the transform temperature will do: tensor maps by value or in global memory, row-major weights or packed.

#define FSGEN_SHORT_NAMES
#include KERNEL_HEADER

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

// check turns what the driver says into an exception.
static void check(CUresult code, const char *what)
{
	if (code != CUDA_SUCCESS)
		throw std::runtime_error(std::string(what) + ": " + fsgen_error(code));
}

// Memory is device memory, with a copy of some values in the order of a stream: cuMemcpyHtoD would be in no order with a stream
// that does not block.
class Memory {
public:
	explicit Memory(size_t bytes) { check(cuMemAlloc(&address, bytes), "cuMemAlloc"); }
	template <typename T> Memory(const std::vector<T> &values, CUstream stream) : Memory(values.size() * sizeof(T))
	{
		check(cuMemcpyHtoDAsync(address, values.data(), values.size() * sizeof(T), stream), "cuMemcpyHtoDAsync");
	}
	~Memory() { cuMemFree(address); }
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	CUdeviceptr address = 0;
};

// read reads a file of n values.
template <typename T> static std::vector<T> read(const std::string &path, size_t n)
{
	std::ifstream in(path, std::ios::binary);
	const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
	if (bytes.size() != n * sizeof(T))
		throw std::runtime_error(path + ": want " + std::to_string(n * sizeof(T)) + " bytes, got " + std::to_string(bytes.size()));
	std::vector<T> out(n);
	memcpy(out.data(), bytes.data(), bytes.size());
	return out;
}

// print prints an output, when the stream has come so far.
static void print(const char *name, const Memory &output, uint32_t n, CUstream stream)
{
	std::vector<int32_t> values(n);
	check(cuMemcpyDtoHAsync(values.data(), output.address, n * sizeof(int32_t), stream), "cuMemcpyDtoHAsync");
	check(cuStreamSynchronize(stream), "cuStreamSynchronize");
	printf(", \"%s\": [", name);
	for (size_t i = 0; i < values.size(); i++)
		printf("%s%d", i ? ", " : "", values[i]);
	printf("]");
}

// sample reads the problem, launches the kernel twice in a stream of its own, and prints what it wrote.
static void sample(const std::string &dir)
{
	uint32_t vocab = 0, hidden_size = 0, batch = 0;
	if (!(std::ifstream(dir + "/shape.txt") >> vocab >> hidden_size >> batch))
		throw std::runtime_error(dir + "/shape.txt: want vocab, hidden size and batch");
	const std::vector<uint16_t> rows = read<uint16_t>(dir + "/weights.bin", size_t(vocab) * hidden_size);
	CUstream stream = nullptr;
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	const Memory hidden(read<uint16_t>(dir + "/hidden.bin", size_t(batch) * hidden_size), stream);
	const Memory temperature(read<float>(dir + "/temperature.bin", batch), stream);

	char log[4096];
	fsgen_kernel kernel;
	const CUresult loaded = fsgen_load(&kernel, log, sizeof log);
	if (loaded != CUDA_SUCCESS)
		throw std::runtime_error(std::string("loading the kernel: ") + fsgen_error(loaded) + "\n" + log);
	const Memory workspace(fsgen_workspace_bytes(batch)), tokens(batch * sizeof(int32_t)), status(batch * sizeof(int32_t));
	check(fsgen_workspace_zero(workspace.address, batch, stream), "zeroing the workspace");

	fsgen_args args{};
	args.vocab = vocab;
	args.hidden_size = hidden_size;
	args.batch = batch;
#if FSGEN_HAS_SEEDS
	const Memory seeds(read<uint64_t>(dir + "/seed.bin", batch), stream), positions(read<uint64_t>(dir + "/position.bin", batch), stream);
	args.seeds = seeds.address;
	args.seed_stride = 1;
	args.positions = positions.address;
	args.position_stride = 1;
#endif
#if FSGEN_HAS_TEMPERATURE
	args.temperature = temperature.address;
	args.temperature_stride = 1;
#endif
	args.tokens = tokens.address;
	args.status = status.address;
	args.workspace = workspace.address;

	CUtensorMap maps[2] = {};
	check(fsgen_encode_hidden(&maps[0], hidden.address, batch, hidden_size, hidden_size), "the tensor map of the hidden states");
#if FSGEN_HAS_PACKED_WEIGHTS || FSGEN_HAS_PACKED_MAP
	std::vector<uint16_t> packed(fsgen_packed_bytes(vocab, hidden_size) / sizeof(uint16_t));
	fsgen_pack(packed.data(), rows.data(), vocab, hidden_size, hidden_size);
	const Memory weights(packed, stream);
#if FSGEN_HAS_PACKED_WEIGHTS
	args.packed_weights = weights.address;
#else
	check(fsgen_encode_packed_map(&maps[1], weights.address, vocab, hidden_size), "the tensor map of the weights");
#endif
#else
	const Memory weights(rows, stream);
	check(fsgen_encode_weights(&maps[1], weights.address, vocab, hidden_size, hidden_size), "the tensor map of the weights");
#endif
#if FSGEN_GLOBAL_MAPS
	const Memory stored(std::vector<CUtensorMap>(maps, maps + 2), stream); // each at a multiple of 128
	args.hidden = stored.address;
	const CUdeviceptr weights_map = stored.address + sizeof(CUtensorMap);
#else
	args.hidden = &maps[0];
	const CUtensorMap *weights_map = &maps[1];
#endif
#if FSGEN_HAS_PACKED_MAP
	args.packed_map = weights_map;
#elif FSGEN_HAS_WEIGHTS
	args.weights = weights_map;
#else
	(void)weights_map; // narrow kernels copy packed weights without one
#endif

	check(fsgen_launch(&kernel, &args, stream), "the launch");
	args.overlap = 1; // nobody writes the weights: the second launch may begin while the first ends, and gives the same tokens
	check(fsgen_launch(&kernel, &args, stream), "the second launch");

	printf("{\"kernel\": \"%s\"", FSGEN_ENTRY);
	print("tokens", tokens, batch, stream);
	print("status", status, batch, stream);
	printf("}\n");
	check(cuStreamDestroy(stream), "cuStreamDestroy");
	check(fsgen_unload(&kernel), "unloading the kernel");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: sample INPUTS\n");
		return 2;
	}
	try {
		CUdevice device;
		CUcontext context;
		check(cuInit(0), "cuInit");
		check(cuDeviceGet(&device, 0), "cuDeviceGet");
		check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
		check(cuCtxPushCurrent(context), "cuCtxPushCurrent");
		sample(argv[1]);
		check(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
	} catch (const std::exception &e) {
		fprintf(stderr, "sample: %s\n", e.what());
		return 1;
	}
	return 0;
}
