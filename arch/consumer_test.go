package arch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Consumer Blackwell is refused by name, and told why: nothing else about it says that kernels for sm_100 cannot run there.
func TestConsumerBlackwellIsRefusedByName(t *testing.T) {
	for _, name := range []string{"sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a"} {
		_, err := Lookup(name)
		require.EqualError(t, err, "arch: "+name+" is consumer Blackwell (GeForce RTX 50, RTX PRO, DGX Spark): it has neither the tensor cores "+
			"(tcgen05) nor the tensor memory that kernels for sm_100 need; fsgen knows sm_90, sm_100")
	}
	for _, cc := range []ComputeCapability{{12, 0}, {12, 1}} {
		_, err := ForDevice("NVIDIA GeForce RTX 5090", cc)
		var refused *UnsupportedError
		require.ErrorAs(t, err, &refused)
		require.EqualError(t, err, "arch: NVIDIA GeForce RTX 5090 has compute capability "+cc.String()+", consumer Blackwell (GeForce RTX 50, "+
			"RTX PRO, DGX Spark): it has neither the tensor cores (tcgen05) nor the tensor memory that kernels for sm_100 need; "+
			"fsgen has kernels for sm_90a, sm_100f only")
	}
	for _, other := range []string{"sm_110", "sm_130", "sm_89", "sm_12"} {
		_, err := Lookup(other)
		require.ErrorContains(t, err, "unknown architecture", other)
	}
	_, err := ForDevice("NVIDIA Jetson Thor", ComputeCapability{11, 0})
	require.NotContains(t, err.Error(), "consumer")
}
