package driver

// symbol is one function of the driver library.
type symbol uint8

// The driver functions, each looked up when it is first called.
const (
	cuInit symbol = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetUuid
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxPushCurrent
	cuCtxPopCurrent
	cuCtxSynchronize
	cuMemAlloc
	cuMemFree
	cuMemGetInfo
	cuMemHostAlloc
	cuMemFreeHost
	cuMemHostGetDevicePointer
	cuMemHostRegister
	cuMemHostUnregister
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8Async
	cuMemsetD32Async
	cuDeviceCanAccessPeer
	cuCtxEnablePeerAccess
	cuMemGetAllocationGranularity
	cuMemCreate
	cuMemRelease
	cuMemExportToShareableHandle
	cuMemImportFromShareableHandle
	cuMemAddressReserve
	cuMemAddressFree
	cuMemMap
	cuMemUnmap
	cuMemSetAccess
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamQuery
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuStreamIsCapturing
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventSynchronize
	cuEventElapsedTime
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuLinkCreate
	cuLinkAddData
	cuLinkComplete
	cuLinkDestroy
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuFuncGetParamInfo
	cuFuncLoad
	cuOccupancyMaxActiveClusters
	cuOccupancyMaxActiveBlocksPerMultiprocessor
	cuTensorMapEncodeTiled
	cuLaunchKernelEx
	cuGraphInstantiateWithFlags
	cuGraphLaunch
	cuGraphDestroy
	cuGraphExecDestroy
	numSymbols
)

// symbols gives each function its exported name, with the version suffix that cuda.h hides behind a macro: the name
// without it is an older function with other parameters. The feature is what a message says cannot be had without it.
var symbols = [numSymbols]struct{ name, feature string }{
	cuInit:                    {"cuInit", "starting the driver"},
	cuDriverGetVersion:        {"cuDriverGetVersion", "the driver version"},
	cuGetErrorName:            {"cuGetErrorName", "error names"},
	cuGetErrorString:          {"cuGetErrorString", "error texts"},
	cuDeviceGetCount:          {"cuDeviceGetCount", "listing devices"},
	cuDeviceGet:               {"cuDeviceGet", "devices"},
	cuDeviceGetName:           {"cuDeviceGetName", "device names"},
	cuDeviceGetUuid:           {"cuDeviceGetUuid_v2", "device UUIDs"},
	cuDeviceGetAttribute:      {"cuDeviceGetAttribute", "device attributes"},
	cuDeviceTotalMem:          {"cuDeviceTotalMem_v2", "memory sizes"},
	cuDevicePrimaryCtxRetain:  {"cuDevicePrimaryCtxRetain", "the primary context"},
	cuDevicePrimaryCtxRelease: {"cuDevicePrimaryCtxRelease_v2", "the primary context"},
	cuCtxPushCurrent:          {"cuCtxPushCurrent_v2", "contexts"},
	cuCtxPopCurrent:           {"cuCtxPopCurrent_v2", "contexts"},
	cuCtxSynchronize:          {"cuCtxSynchronize", "waiting for a device"},
	cuMemAlloc:                {"cuMemAlloc_v2", "device memory"},
	cuMemFree:                 {"cuMemFree_v2", "device memory"},
	cuMemGetInfo:              {"cuMemGetInfo_v2", "memory sizes"},
	cuMemHostAlloc:            {"cuMemHostAlloc", "pinned host memory"},
	cuMemFreeHost:             {"cuMemFreeHost", "pinned host memory"},
	cuMemcpyHtoDAsync:         {"cuMemcpyHtoDAsync_v2", "copies to a device"},
	cuMemcpyDtoHAsync:         {"cuMemcpyDtoHAsync_v2", "copies from a device"},
	cuMemcpyDtoDAsync:         {"cuMemcpyDtoDAsync_v2", "copies within a device"},
	cuMemsetD8Async:           {"cuMemsetD8Async", "filling memory"},
	cuMemsetD32Async:          {"cuMemsetD32Async", "filling memory"},
	cuStreamCreate:            {"cuStreamCreate", "streams"},
	cuStreamDestroy:           {"cuStreamDestroy_v2", "streams"},
	cuStreamSynchronize:       {"cuStreamSynchronize", "waiting for a stream"},
	cuStreamQuery:             {"cuStreamQuery", "asking whether a stream is idle"},
	cuStreamWaitEvent:         {"cuStreamWaitEvent", "ordering streams"},
	cuStreamBeginCapture:      {"cuStreamBeginCapture_v2", "graph capture"},
	cuStreamEndCapture:        {"cuStreamEndCapture", "graph capture"},
	cuStreamIsCapturing:       {"cuStreamIsCapturing", "graph capture"},
	cuEventCreate:             {"cuEventCreate", "events"},
	cuEventDestroy:            {"cuEventDestroy_v2", "events"},
	cuEventRecord:             {"cuEventRecord", "events"},
	cuEventQuery:              {"cuEventQuery", "events"},
	cuEventSynchronize:        {"cuEventSynchronize", "waiting for an event"},
	cuEventElapsedTime:        {"cuEventElapsedTime", "timing by events"},
	cuModuleLoadDataEx:        {"cuModuleLoadDataEx", "loading kernels"},
	cuModuleUnload:            {"cuModuleUnload", "unloading kernels"},
	cuModuleGetFunction:       {"cuModuleGetFunction", "kernels"},
	cuLinkCreate:              {"cuLinkCreate_v2", "compiling PTX to a cubin"},
	cuLinkAddData:             {"cuLinkAddData_v2", "compiling PTX to a cubin"},
	cuLinkComplete:            {"cuLinkComplete", "compiling PTX to a cubin"},
	cuLinkDestroy:             {"cuLinkDestroy", "compiling PTX to a cubin"},
	cuFuncGetAttribute:        {"cuFuncGetAttribute", "kernel attributes"},
	cuFuncSetAttribute:        {"cuFuncSetAttribute", "kernel attributes"},
	cuFuncGetParamInfo:        {"cuFuncGetParamInfo", "checking kernel parameters (CUDA 12.4)"},
	cuFuncLoad:                {"cuFuncLoad", "loading a kernel ahead of its launch (CUDA 12.4)"},

	cuMemHostGetDevicePointer:      {"cuMemHostGetDevicePointer_v2", "host memory that devices reach"},
	cuMemHostRegister:              {"cuMemHostRegister_v2", "host memory that processes share"},
	cuMemHostUnregister:            {"cuMemHostUnregister", "host memory that processes share"},
	cuDeviceCanAccessPeer:          {"cuDeviceCanAccessPeer", "peer access"},
	cuCtxEnablePeerAccess:          {"cuCtxEnablePeerAccess", "peer access"},
	cuMemGetAllocationGranularity:  {"cuMemGetAllocationGranularity", "memory that is shared (CUDA 10.2)"},
	cuMemCreate:                    {"cuMemCreate", "memory that is shared (CUDA 10.2)"},
	cuMemRelease:                   {"cuMemRelease", "memory that is shared (CUDA 10.2)"},
	cuMemExportToShareableHandle:   {"cuMemExportToShareableHandle", "memory that is shared (CUDA 10.2)"},
	cuMemImportFromShareableHandle: {"cuMemImportFromShareableHandle", "memory that is shared (CUDA 10.2)"},
	cuMemAddressReserve:            {"cuMemAddressReserve", "memory that is shared (CUDA 10.2)"},
	cuMemAddressFree:               {"cuMemAddressFree", "memory that is shared (CUDA 10.2)"},
	cuMemMap:                       {"cuMemMap", "memory that is shared (CUDA 10.2)"},
	cuMemUnmap:                     {"cuMemUnmap", "memory that is shared (CUDA 10.2)"},
	cuMemSetAccess:                 {"cuMemSetAccess", "memory that is shared (CUDA 10.2)"},

	cuOccupancyMaxActiveClusters: {"cuOccupancyMaxActiveClusters", "sizing cluster launches (CUDA 11.8)"},
	cuOccupancyMaxActiveBlocksPerMultiprocessor: {
		"cuOccupancyMaxActiveBlocksPerMultiprocessor", "sizing launches",
	},
	cuTensorMapEncodeTiled:      {"cuTensorMapEncodeTiled", "tensor maps (CUDA 12.0)"},
	cuLaunchKernelEx:            {"cuLaunchKernelEx", "cluster launches (CUDA 11.8)"},
	cuGraphInstantiateWithFlags: {"cuGraphInstantiateWithFlags", "graphs (CUDA 11.4)"},
	cuGraphLaunch:               {"cuGraphLaunch", "graphs"},
	cuGraphDestroy:              {"cuGraphDestroy", "graphs"},
	cuGraphExecDestroy:          {"cuGraphExecDestroy", "graphs"},
}

func (s symbol) String() string { return symbols[s].name }
