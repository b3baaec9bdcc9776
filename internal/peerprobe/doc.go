// Package peerprobe finds out whether stores to another device's memory arrive. A driver says that one device can reach another
// (driver.Device.CanAccessPeer), and on some machines it is wrong: behind an IOMMU or a PCIe switch that redirects, stores
// vanish without an error, and a kernel that waits for a flag waits for ever. So nobody should trust the driver's word without
// having seen one write.
//
// In one process, [Run] does it all. Where writer and owner are processes of their own, each does its part, in step with the
// other by a barrier: the owner [Clear], barrier, the writer [Write], barrier, the owner [Verify]. A [*Veto] says what was
// written and what was seen. The probe can only forbid: the copy that it makes takes the way of a kernel's stores, but is none.
package peerprobe
