// Package nvml reads a GPU's clocks, power and temperature through NVIDIA's management library, found at run time. What
// the library, the GPU or the container does not give is missing from a Reading, never an error: a measurement is worth
// having without its clocks.
package nvml
