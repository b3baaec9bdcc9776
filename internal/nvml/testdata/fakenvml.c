// A stand-in for libnvidia-ml, for tests on machines without a GPU. Functions named fake_* are the tests' controls.
#include <string.h>

static int started, broken;
static int gpu;
int fake_started(void) { return started; }
int fake_break(int code) { broken = code; return 0; }
#define ENTER(device) do { if (!started) return 1; if (broken) return broken; if ((device) != &gpu) return 2; } while (0)

int nvmlInit_v2(void) { if (broken) return broken; started++; return 0; }
int nvmlShutdown(void) { started--; return 0; }
const char *nvmlErrorString(int code) { return code == 6 ? "Not Found" : code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  ENTER(&gpu);
  if (strcmp(uuid, "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0")) return 6;
  *device = &gpu;
  return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned n) { ENTER(device); strncpy(name, "Fake GPU 0", n); return 0; }
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) { ENTER(device); *mhz = type == 1 ? 1755 : type == 2 ? 3201 : 9; return 0; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) { ENTER(device); *mw = 612345; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) { ENTER(device); *mw = 700000; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *c) { ENTER(device); if (sensor) return 2; *c = 63; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) { ENTER(device); *reasons = 0x24; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) { ENTER(device); *reasons = 8; return 0; }
