package driver

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fsgen/fsgen/internal/cfake"
)

// TestAgainstHeader holds every number and name that this package copied out of cuda.h against the file itself, where
// there is one (make tools fetches it).
func TestAgainstHeader(t *testing.T) {
	text := readHeader(t)
	enums := enumerators(text)
	for name, got := range headerConstants() {
		want, found := enums[name]
		assert.True(t, found, "cuda.h has no %s", name)
		assert.Equal(t, want, got, name)
	}
	for name, got := range map[string]int{"CU_MEMHOSTALLOC_PORTABLE": hostPortable, "CU_MEMHOSTALLOC_DEVICEMAP": hostMapped,
		"CU_MEMHOSTREGISTER_PORTABLE": hostPortable, "CU_MEMHOSTREGISTER_DEVICEMAP": hostMapped} {
		assert.Regexp(t, fmt.Sprintf(`#define %s\s+0x0*%x\b`, name, got), text)
	}
	for _, s := range symbols {
		declared := regexp.MustCompile(`\b` + s.name + `\b`).MatchString(text)
		base, _, _ := strings.Cut(s.name, "_v")
		alias := regexp.MustCompile(`#define\s+` + base + `\s+(?:__CUDA_API_PT\w+\()?(\w+)`).FindStringSubmatch(text)
		switch {
		case !declared:
			t.Errorf("cuda.h has no %s", s.name)
		case alias != nil && alias[1] != s.name && s.name != "cuEventElapsedTime": // whose new version adds nothing here
			t.Errorf("cuda.h means %s by %s, this package %s", alias[1], base, s.name)
		}
	}
}

func readHeader(t *testing.T) string {
	t.Helper()
	if path := cfake.CUDAHeader(); path != "" {
		text, err := os.ReadFile(path)
		must(t, err)
		return string(text)
	}
	t.Skip("no cuda.h: make tools fetches it, or set FSGEN_CUDA_H to one")
	return ""
}

var (
	enumBlock = regexp.MustCompile(`(?s)typedef enum \w+\s*\{(.*?)\}`)
	enumLine  = regexp.MustCompile(`^,?\s*(C\w+)\s*(?:=\s*(\w+))?`)
	comments  = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
)

// enumerators reads the values of all enumerators of a header.
func enumerators(text string) map[string]int {
	values := map[string]int{}
	for _, block := range enumBlock.FindAllStringSubmatch(comments.ReplaceAllString(text, ""), -1) {
		next := 0
		for _, item := range strings.Split(block[1], ",") {
			m := enumLine.FindStringSubmatch(strings.TrimSpace(item))
			if m == nil {
				continue
			}
			if m[2] != "" {
				if n, err := strconv.ParseInt(m[2], 0, 64); err == nil {
					next = int(n)
				} else {
					next = values[m[2]]
				}
			}
			values[m[1]] = next
			next++
		}
	}
	return values
}

func headerConstants() map[string]int {
	all := map[string]int{
		"CUDA_SUCCESS": int(success), "CUDA_ERROR_CONTAINED": 226, "CUDA_ERROR_CONTEXT_IS_DESTROYED": 709,
		"CUDA_ERROR_ASSERT": 710, "CUDA_ERROR_HARDWARE_STACK_ERROR": 714, "CUDA_ERROR_ILLEGAL_INSTRUCTION": 715,
		"CUDA_ERROR_MISALIGNED_ADDRESS": 716, "CUDA_ERROR_INVALID_ADDRESS_SPACE": 717, "CUDA_ERROR_INVALID_PC": 718,
		"CUDA_ERROR_TENSOR_MEMORY_LEAK": 721, "CUDA_ERROR_EXTERNAL_DEVICE": 911,
		"CU_JIT_MAX_REGISTERS": jitMaxRegisters, "CU_JIT_INFO_LOG_BUFFER": jitInfoLog,
		"CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES": jitInfoLogBytes, "CU_JIT_ERROR_LOG_BUFFER": jitErrorLog,
		"CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": jitErrorLogBytes, "CU_JIT_OPTIMIZATION_LEVEL": jitOptLevel,
		"CU_JIT_LOG_VERBOSE": jitLogVerbose, "CU_JIT_GENERATE_LINE_INFO": jitLineInfo, "CU_JIT_INPUT_PTX": linkInputPTX,
		"CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": funcMaxThreads, "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": funcStaticShared,
		"CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES": funcConst, "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES": funcLocal,
		"CU_FUNC_ATTRIBUTE_NUM_REGS": funcRegisters, "CU_FUNC_ATTRIBUTE_PTX_VERSION": funcPTXVersion,
		"CU_FUNC_ATTRIBUTE_BINARY_VERSION":                      funcBinaryVersion,
		"CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES":       funcMaxDynamicShared,
		"CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT":    funcSharedCarveout,
		"CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED":   funcNonPortableCluster,
		"CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION":                 attributeCluster,
		"CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION": attributeProgrammatic,
		"CU_STREAM_NON_BLOCKING":                                streamNonBlocking,
		"CU_EVENT_DISABLE_TIMING":                               eventDisableTiming,
		"CU_STREAM_CAPTURE_MODE_THREAD_LOCAL":                   captureThreadLocal,
		"CU_STREAM_CAPTURE_STATUS_NONE":                         0,
		"CU_MEM_ALLOCATION_TYPE_PINNED":                         allocationPinned,
		"CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR":              handleFile,
		"CU_MEM_LOCATION_TYPE_DEVICE":                           locationDevice,
		"CU_MEM_ACCESS_FLAGS_PROT_READWRITE":                    accessReadWrite,
		"CU_MEM_ALLOC_GRANULARITY_MINIMUM":                      granularityMinimum,
	}
	for name, code := range map[string]Code{
		"INVALID_VALUE": ErrInvalidValue, "OUT_OF_MEMORY": ErrOutOfMemory, "NOT_INITIALIZED": ErrNotInitialized,
		"DEINITIALIZED": ErrDeinitialized, "STUB_LIBRARY": ErrStubLibrary, "DEVICE_UNAVAILABLE": ErrDeviceUnavailable,
		"NO_DEVICE": ErrNoDevice, "INVALID_DEVICE": ErrInvalidDevice, "INVALID_IMAGE": ErrInvalidImage,
		"INVALID_CONTEXT": ErrInvalidContext, "NO_BINARY_FOR_GPU": ErrNoBinaryForGPU,
		"ECC_UNCORRECTABLE": ErrECCUncorrectable, "INVALID_PTX": ErrInvalidPTX,
		"NVLINK_UNCORRECTABLE": ErrNVLinkUncorrectable, "JIT_COMPILER_NOT_FOUND": ErrJITCompilerNotFound,
		"UNSUPPORTED_PTX_VERSION": ErrUnsupportedPTXVersion, "JIT_COMPILATION_DISABLED": ErrJITDisabled,
		"INVALID_HANDLE": ErrInvalidHandle, "NOT_FOUND": ErrNotFound, "NOT_READY": ErrNotReady,
		"ILLEGAL_ADDRESS": ErrIllegalAddress, "LAUNCH_OUT_OF_RESOURCES": ErrLaunchOutOfResources,
		"LAUNCH_TIMEOUT": ErrLaunchTimeout, "LAUNCH_FAILED": ErrLaunchFailed, "NOT_SUPPORTED": ErrNotSupported,
		"SYSTEM_NOT_READY": ErrSystemNotReady, "SYSTEM_DRIVER_MISMATCH": ErrSystemDriverMismatch,
		"STREAM_CAPTURE_UNSUPPORTED": ErrCaptureUnsupported, "STREAM_CAPTURE_INVALIDATED": ErrCaptureInvalidated,
		"INVALID_CLUSTER_SIZE": ErrInvalidClusterSize, "UNKNOWN": ErrUnknown, "NOT_PERMITTED": ErrNotPermitted,
		"PEER_ACCESS_UNSUPPORTED": ErrPeerAccessUnsupported, "PEER_ACCESS_ALREADY_ENABLED": ErrPeerAccessEnabled,
		"TOO_MANY_PEERS": ErrTooManyPeers,
	} {
		all["CUDA_ERROR_"+name] = int(code)
	}
	for name, a := range map[string]Attribute{
		"MAX_THREADS_PER_BLOCK": MaxThreadsPerBlock, "CLOCK_RATE": ClockKHz, "MULTIPROCESSOR_COUNT": Multiprocessors,
		"INTEGRATED": Integrated, "COMPUTE_MODE": ComputeMode, "ECC_ENABLED": ECC, "PCI_BUS_ID": PCIBus,
		"PCI_DEVICE_ID": PCIDevice, "MEMORY_CLOCK_RATE": MemoryClockKHz, "GLOBAL_MEMORY_BUS_WIDTH": MemoryBusBits,
		"L2_CACHE_SIZE": L2Bytes, "PCI_DOMAIN_ID": PCIDomain, "COMPUTE_CAPABILITY_MAJOR": ccMajor,
		"COMPUTE_CAPABILITY_MINOR": ccMinor, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": SharedPerMP,
		"MAX_REGISTERS_PER_MULTIPROCESSOR": RegistersPerMP, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": SharedPerBlockOptin,
		"RESERVED_SHARED_MEMORY_PER_BLOCK": ReservedShared, "CLUSTER_LAUNCH": ClusterLaunch,
		"TENSOR_MAP_ACCESS_SUPPORTED": TensorMapAccess, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": VirtualMemory,
		"HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED": FileHandles,
	} {
		all["CU_DEVICE_ATTRIBUTE_"+name] = int(a)
	}
	for name, v := range map[string]int{
		"DATA_TYPE_UINT8": int(Uint8), "DATA_TYPE_INT32": int(Int32), "DATA_TYPE_FLOAT16": int(Float16),
		"DATA_TYPE_FLOAT32": int(Float32), "DATA_TYPE_BFLOAT16": int(BFloat16), "DATA_TYPE_TFLOAT32_FTZ": int(TFloat32FTZ),
		"SWIZZLE_NONE": int(SwizzleNone), "SWIZZLE_128B": int(Swizzle128B), "INTERLEAVE_32B": int(Interleave32B),
		"L2_PROMOTION_L2_256B":                int(L2Promotion256B),
		"FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA": int(OOBFillNaN),
	} {
		all["CU_TENSOR_MAP_"+name] = v
	}
	return all
}
