package reference

// Constants of Philox4x32 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
const (
	philoxM0     = 0xD2511F53
	philoxM1     = 0xCD9E8D57
	philoxW0     = 0x9E3779B9
	philoxW1     = 0xBB67AE85
	philoxRounds = 10
)

// Philox is the bijection Philox4x32-10 of a counter under a key.
func Philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	c0, c1, c2, c3 := philox(counter[0], counter[1], counter[2], counter[3], key[0], key[1])
	return [4]uint32{c0, c1, c2, c3}
}

// philox takes and returns words rather than arrays, which the compiler would keep in memory.
func philox(c0, c1, c2, c3, k0, k1 uint32) (uint32, uint32, uint32, uint32) {
	for range philoxRounds {
		p0, p1 := uint64(c0)*philoxM0, uint64(c2)*philoxM1
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0, k1 = k0+philoxW0, k1+philoxW1
	}
	return c0, c1, c2, c3
}
