package templates

import "github.com/fsgen/fsgen/ptx"

// tensorMapBytes is the size of a tensor map, which an acquiring fence has to name.
const tensorMapBytes = 128

// tensorMap returns the generic address of a tensor map: in parameter memory, or where the parameter points to.
func (k *skeleton) tensorMap(p ptx.Param, name string) ptx.B64 {
	r := k.f.B64(name)
	if k.options.TensorMaps == InGlobal {
		k.f.LdParamB64(r, p)
		return r
	}
	k.f.MovVarB64(r, p)
	k.f.CvtaParamU64(r, r)
	return r
}

// prefetchMaps asks for the tensor maps among the parameters. Those in global memory nobody may touch ahead of the fence.
func (k *skeleton) prefetchMaps() {
	if k.options.TensorMaps == InGlobal {
		return
	}
	if k.boxed() {
		k.f.PrefetchParamTensormap(k.sig.weights)
	}
	k.f.PrefetchParamTensormap(k.sig.hidden)
}

// acquireMap orders this thread's copies by a tensor map in global memory after what wrote the map there, through another
// proxy: a copy from the host, so that the scope is the system's (PTX ISA, "membar/fence"; CUDA Programming Guide,
// "Encoding a Tensor Map on Host": "requires a fence in each thread block before any thread in the block uses" the map).
func (k *skeleton) acquireMap(tensor ptx.B64) {
	if k.options.TensorMaps == InGlobal {
		k.f.FenceProxyTensormapGenericAcquireSys(tensor, tensorMapBytes)
	}
}
