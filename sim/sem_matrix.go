package sim

// This file holds the warp-level matrix instructions (PTX ISA, "Warp-Level Matrix Instructions").

// rowAddress is the shared address of row r of matrix i: given by lane 8i + r.
func rowAddress(s *step, x address, i, r int) (lane int, addr uint64) {
	lane = 8*i + r
	return lane, x.of(s.w, lane)
}

func buildLdmatrix(a *asm) exec {
	d, x, trans := a.dsts(0), a.addr(1), a.form.Has("trans")
	return func(s *step) {
		var tile [8][8]uint64
		for i, r := range d {
			for row := range 8 {
				lane, addr := rowAddress(s, x, i, row)
				if data := s.read(a.spaceOf(1), lane, addr, 16, 16); data != nil {
					for k := range 8 {
						tile[row][k] = load(data[2*k:], 2)
					}
				}
			}
			for l := range warpSize {
				row, k := l/4, 2*(l%4)
				if trans {
					s.w.r[r][l] = tile[k][row] | tile[k+1][row]<<16
				} else {
					s.w.r[r][l] = tile[row][k] | tile[row][k+1]<<16
				}
			}
		}
	}
}

func buildStmatrix(a *asm) exec {
	x, v, trans := a.addr(0), a.srcs(1), a.form.Has("trans")
	return func(s *step) {
		for i, r := range v {
			for row := range 8 {
				lane, addr := rowAddress(s, x, i, row)
				data := s.write(a.spaceOf(0), lane, addr, 16, 16)
				if data == nil {
					continue
				}
				for k := range 8 {
					from, half := 4*row+k/2, k%2
					if trans {
						from, half = 4*k+row/2, row%2
					}
					store(data[2*k:], 2, s.w.r[r][from]>>(16*half))
				}
			}
		}
	}
}

// buildMmaSync is D = A B + C of 16 by 8, k = 8 or 16, fragments as for wgmma; B's lane l holds column l/4.
func buildMmaSync(a *asm) exec {
	d, ra, rb, rc := a.dsts(0), a.srcs(1), a.srcs(2), a.srcs(3)
	decode := decodeBF16
	if a.form.Has("f32.f16.f16.f32") {
		decode = decodeF16
	}
	depth := 8 * len(rb)
	at := func(w *warp, regs []slot, i, l int) float32 {
		return decode(w.r[regs[i/2]][l] >> (16 * (i % 2)) & 0xffff)
	}
	return func(s *step) {
		var ta, tb [16][16]float32
		for l := range warpSize {
			for i := range 2 * len(ra) {
				ta[l/4+i/2%2*8][2*(l%4)+i%2+i/4*8] = at(s.w, ra, i, l)
			}
			for i := range 2 * len(rb) {
				tb[l/4][2*(l%4)+i%2+i/2*8] = at(s.w, rb, i, l)
			}
		}
		for l := range warpSize {
			for i := range 4 {
				row, col := l/4+i/2*8, 2*(l%4)+i%2
				acc := f32(s.w.r[rc[i]][l])
				for k := range depth {
					acc += float32(ta[row][k] * tb[col][k])
				}
				s.w.r[d[i]][l] = bits32(acc)
			}
		}
	}
}

var matrixSemantics = map[string]builder{"Ldmatrix": buildLdmatrix, "Stmatrix": buildStmatrix, "MmaSync": buildMmaSync}
