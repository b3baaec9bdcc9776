package driver

import "fmt"

// CanAccessPeer reports whether the driver says that kernels on the device can read and write peer's memory. A device
// reaches its own. The driver's word is no proof: there are machines (IOMMU, PCIe switches) where stores get lost, which
// only a write that is read back can show.
func (dev *Device) CanAccessPeer(peer *Device) (bool, error) {
	if err := dev.sameDriver(peer); err != nil {
		return false, err
	}
	if dev.handle == peer.handle {
		return true, nil // cuDeviceCanAccessPeer says no of a device and itself
	}
	f := getFrame()
	defer putFrame(f)
	if err := dev.drv.call(f, cuDeviceCanAccessPeer, f.out(0), dev.arg(), peer.arg()); err != nil {
		return false, withDetail(err, "%v reaching %v", dev, peer)
	}
	return f.int(0) != 0, nil
}

// EnablePeerAccess lets kernels and copies of the context's device use all memory that peer's device has, or will have, from
// Alloc. It holds in one direction, for everybody in the process, until one of the two primary contexts is gone: there is
// nothing to close. That it was enabled before, or that both are one device, is no error. Memory of AllocShared does not need it.
func (c *Context) EnablePeerAccess(peer *Context) error {
	if err := c.dev.sameDriver(peer.dev); err != nil {
		return err
	}
	if err := c.use(); err != nil {
		return err
	}
	defer c.done()
	if err := peer.use(); err != nil {
		return err
	}
	defer peer.done()
	if c.primary == peer.primary {
		return nil
	}
	f := getFrame()
	defer putFrame(f)
	code, err := c.primary.try(f, cuCtxEnablePeerAccess, peer.primary.handle, 0)
	if err != nil || code == success || code == ErrPeerAccessEnabled {
		return err
	}
	return withDetail(c.primary.newError(cuCtxEnablePeerAccess, code), "%v reaching %v", c.dev, peer.dev)
}

// DriverMismatchError says that two devices were to work together that two driver libraries serve.
type DriverMismatchError struct{ Device, Other *Device }

func (e *DriverMismatchError) Error() string {
	return fmt.Sprintf("driver: %v is of %s, %v of %s", e.Device, e.Device.drv.path, e.Other, e.Other.drv.path)
}

func (dev *Device) sameDriver(other *Device) error {
	if dev.drv != other.drv {
		return &DriverMismatchError{dev, other}
	}
	return nil
}
