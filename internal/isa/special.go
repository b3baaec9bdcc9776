package isa

import "github.com/fsgen/fsgen/arch"

// Special is a special register (PTX ISA, chapter "Special Registers").
type Special struct {
	Text string // "%tid.x"
	GoID string
	Type Type
	Min  arch.Version
	Req  arch.Req
}

// Specials lists the special registers that may be read.
var Specials = specials()

func specials() []Special {
	var out []Special
	add := func(t Type, min arch.Version, req arch.Req, names ...string) {
		for i := 0; i+1 < len(names); i += 2 {
			out = append(out, Special{names[i], names[i+1], t, min, req})
		}
	}
	axes := func(text, goID string, min arch.Version, req arch.Req) {
		for _, x := range []string{"x", "y", "z"} {
			add(U32, min, req, text+"."+x, goID+string(x[0]-'x'+'X'))
		}
	}
	axes("%tid", "Tid", v(1, 0), arch.Req{})
	axes("%ntid", "Ntid", v(1, 0), arch.Req{})
	axes("%ctaid", "Ctaid", v(1, 0), arch.Req{})
	axes("%nctaid", "Nctaid", v(1, 0), arch.Req{})
	axes("%clusterid", "Clusterid", v(7, 8), sm(90))
	axes("%nclusterid", "Nclusterid", v(7, 8), sm(90))
	axes("%cluster_ctaid", "ClusterCtaid", v(7, 8), sm(90))
	axes("%cluster_nctaid", "ClusterNctaid", v(7, 8), sm(90))
	add(U32, v(7, 8), sm(90), "%cluster_ctarank", "ClusterCtarank", "%cluster_nctarank", "ClusterNctarank")
	add(Pred, v(7, 8), sm(90), "%is_explicit_cluster", "IsExplicitCluster")
	add(U32, v(1, 3), arch.Req{}, "%laneid", "Laneid", "%warpid", "Warpid", "%smid", "Smid", "%gridid", "Gridid")
	add(U32, v(2, 0), arch.Req{}, "%nwarpid", "Nwarpid", "%nsmid", "Nsmid",
		"%lanemask_eq", "LanemaskEq", "%lanemask_le", "LanemaskLe", "%lanemask_lt", "LanemaskLt",
		"%lanemask_ge", "LanemaskGe", "%lanemask_gt", "LanemaskGt")
	add(U32, v(1, 0), arch.Req{}, "%clock", "Clock")
	add(U32, v(5, 0), arch.Req{}, "%clock_hi", "ClockHi")
	add(U64, v(2, 0), arch.Req{}, "%clock64", "Clock64")
	add(U64, v(3, 1), sm(30), "%globaltimer", "Globaltimer")
	add(U32, v(3, 1), sm(30), "%globaltimer_lo", "GlobaltimerLo", "%globaltimer_hi", "GlobaltimerHi")
	add(U32, v(4, 1), arch.Req{}, "%total_smem_size", "TotalSmemSize", "%dynamic_smem_size", "DynamicSmemSize")
	add(U32, v(8, 1), sm(90), "%aggr_smem_size", "AggrSmemSize")
	return out
}

var specialByText = func() map[string]*Special {
	m := map[string]*Special{}
	for i := range Specials {
		m[Specials[i].Text] = &Specials[i]
	}
	return m
}()

// SpecialByText finds a special register by its PTX spelling.
func SpecialByText(text string) (*Special, bool) {
	s, ok := specialByText[text]
	return s, ok
}
