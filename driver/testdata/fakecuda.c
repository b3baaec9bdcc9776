// A stand-in for libcuda.so.1, for tests on machines without a GPU. Device memory is host memory and streams run at
// once, but what a driver insists on is insisted on: a current context that matches each object, live handles,
// captures that end on their own thread, errors that stay once a kernel has crashed, memory of other devices used only after
// access was given. Memory that is shared by file lies in one, so that processes really share it. Functions named fake_* are
// the tests' controls; FAKE_DROP_PEER_STORES in the environment is fake_drop_peer_stores(1) for processes that tests start.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long u64;
#define API __attribute__((visibility("default")))

enum kind { CTX = 0x1001, STREAM, EVENT, MODULE, FUNC, LINK, GRAPH, EXEC, MEM, HOSTMEM, PHYS };
struct obj { // what every handle points to; never freed, so that a stale handle is recognised
  enum kind kind;
  int dead;
  struct ctx *ctx;
};
struct ctx { struct obj o; int device, refs, poison; };
struct param { int size; };
struct func { struct obj o; char name[256]; int nparams; struct param params[64]; int max_dynamic, non_portable, carveout; struct func *next; };
struct module { struct obj o; struct func *funcs; };
struct launch { // as fake_last_launch copies it out
  unsigned grid[3], block[3], shared, cluster[3], programmatic, nparams, aligned, entry_len;
  u64 stream;
  unsigned char params[2048];
};
struct node { struct func *f; struct launch l; struct node *next; };
struct graph { struct obj o; struct node *head; };
struct stream { struct obj o; int capturing; pthread_t owner; struct graph *graph; };
struct event { struct obj o; int recorded; double ms; };
struct link { struct obj o; pthread_t thread; unsigned nopt; int *opts; void **vals; char *image; size_t size; };
struct mem { struct obj o; char *p; size_t n; unsigned flags; struct mem *next; };
struct phys { struct obj o; int fd, device; size_t n; }; // what cuMemCreate makes: a file, whose last page says of which device it is
struct range { char *p; size_t n; int mapped, device; unsigned access; struct range *next; }; // access: a bit for each device

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int ndev = 2, initialised, quick, version = 12040, hold, delay_us, live, bad_handles;
static unsigned log_info, log_err;
static struct ctx primary[8], foreign;
static struct mem *mems;
static struct range *ranges;
static unsigned peers[8]; // a bit for each device whose memory device i may use
static int no_peers, drop_stores = -1, odd_attribute = -1, odd_value;
static struct launch last, before;
static double clock_ms;
static __thread struct ctx *stack[64];
static __thread int depth;

static struct count { const char *name; int calls, code, skip, times; } counts[256];
static struct count *count(const char *name) {
  for (struct count *c = counts;; c++) {
    if (!c->name) c->name = strdup(name);
    if (!strcmp(c->name, name)) return c;
  }
}

// Every API function begins with ENTER, which counts the call and fails it if a test asked for that.
static int enter(const char *name, int needs_ctx) {
  if (quick) return 0; // benchmarks measure the way here, not this
  if (delay_us) usleep(delay_us); else sched_yield();
  pthread_mutex_lock(&mu);
  struct count *c = count(name);
  c->calls++;
  int code = 0;
  if (c->times > 0 && c->skip-- <= 0) { c->times--; c->skip = 0; code = c->code; }
  if (!code && !initialised && strcmp(name, "cuInit")) code = 3;
  if (!code && needs_ctx) {
    struct ctx *cur = depth ? stack[depth - 1] : NULL;
    if (!cur || cur->o.dead) code = 201;
    else if (cur->poison) code = cur->poison;
  }
  pthread_mutex_unlock(&mu);
  return code;
}
#define ENTER(needs_ctx) do { int code_ = enter(__func__, needs_ctx); if (code_) return code_; } while (0)

static struct ctx *current(void) { return stack[depth - 1]; }
static int bad(void *h, enum kind kind) { // is h not a live object of this kind in the current context?
  struct obj *o = h;
  if (o && o->kind == kind && !o->dead && o->ctx == current()) return 0;
  __atomic_add_fetch(&bad_handles, 1, __ATOMIC_SEQ_CST);
  return 1;
}
static void *make(size_t n, enum kind kind) {
  struct obj *o = calloc(1, n);
  o->kind = kind;
  o->ctx = current();
  __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return o;
}
static CUresult destroy(void *h, enum kind kind) {
  if (bad(h, kind)) return 400;
  ((struct obj *)h)->dead = 1;
  __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return 0;
}
static int bad_stream(void *s) { return s > (void *)2 && bad(s, STREAM); }

// ---- controls
API int fake_fail(const char *name, int code, int skip, int times) {
  pthread_mutex_lock(&mu);
  struct count *c = count(name);
  c->code = code; c->skip = skip; c->times = times;
  pthread_mutex_unlock(&mu);
  return 0;
}
API int fake_calls(const char *name) { pthread_mutex_lock(&mu); int n = count(name)->calls; pthread_mutex_unlock(&mu); return n; }
API int fake_devices(int n) { ndev = n; return 0; }
API int fake_depth(void) { return depth; }
API int fake_push_foreign(void) { foreign.o.kind = CTX; foreign.device = 99; stack[depth++] = &foreign; return 0; }
API int fake_pop_foreign(void) { return depth && stack[depth - 1] == &foreign ? (depth--, 0) : 1; }
API int fake_current_is_foreign(void) { return depth && stack[depth - 1] == &foreign; }
API int fake_refs(int dev) { return primary[dev].refs; }
API int fake_hold(int on) { __atomic_store_n(&hold, on, __ATOMIC_SEQ_CST); return 0; }
API int fake_quick(int on) { quick = on; return 0; }
API int fake_delay(int us) { delay_us = us; return 0; }
API int fake_live(void) { return live; }
API int fake_bad_handles(void) { return bad_handles; }
API int fake_version(int v) { version = v; return 0; }
API int fake_logs(unsigned info, unsigned err) { log_info = info; log_err = err; return 0; }
API int fake_attribute(int a, int v) { odd_attribute = a; odd_value = v; return 0; }
API int fake_no_peers(int on) { no_peers = on; return 0; }
API int fake_drop_peer_stores(int on) { drop_stores = on; return 0; }
API int fake_last_launch(struct launch *out) { pthread_mutex_lock(&mu); *out = last; pthread_mutex_unlock(&mu); return sizeof last; }
API int fake_launch_before(struct launch *out) { pthread_mutex_lock(&mu); *out = before; pthread_mutex_unlock(&mu); return sizeof before; }

// ---- start, errors, devices
API CUresult cuInit(unsigned flags) { ENTER(0); initialised = 1; return flags ? 1 : 0; }
API CUresult cuDriverGetVersion(int *v) { ENTER(0); *v = version; return 0; }
static const struct { int code; const char *name, *text; } errors[] = {
  {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"}, {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
  {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
  {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}, {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
  {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
  {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"}, {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
  {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
  {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}, {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
  {600, "CUDA_ERROR_NOT_READY", "device not ready"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
  {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"}, {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
  {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};
#define NERR (sizeof errors / sizeof *errors)
API CUresult cuGetErrorName(CUresult e, const char **s) { for (size_t i = 0; i < NERR; i++) if (errors[i].code == e) return *s = errors[i].name, 0; *s = NULL; return 1; }
API CUresult cuGetErrorString(CUresult e, const char **s) { for (size_t i = 0; i < NERR; i++) if (errors[i].code == e) return *s = errors[i].text, 0; *s = NULL; return 1; }
API CUresult cuDeviceGetCount(int *n) { ENTER(0); *n = ndev; return 0; }
API CUresult cuDeviceGet(int *dev, int ordinal) { ENTER(0); if (ordinal < 0 || ordinal >= ndev) return 101; *dev = ordinal; return 0; }
API CUresult cuDeviceGetName(char *name, int n, int dev) { ENTER(0); snprintf(name, n, "Fake GPU %d", dev); return 0; }
API CUresult cuDeviceGetUuid_v2(unsigned char *uuid, int dev) { ENTER(0); for (int i = 0; i < 16; i++) uuid[i] = i * 16 + dev; return 0; }
API CUresult cuDeviceTotalMem_v2(size_t *n, int dev) { ENTER(0); *n = (size_t)144 << 30; return 0; }
API CUresult cuDeviceGetAttribute(int *v, int a, int dev) {
  ENTER(0);
  if (a == odd_attribute) return *v = odd_value, 0;
  switch (a) {
  case 16: *v = 132; return 0;
  case 38: *v = 60 << 20; return 0;
  case 75: *v = 9; return 0;
  case 76: *v = 0; return 0;
  case 97: *v = 232448; return 0;
  }
  return a > 200 ? 1 : (*v = a * 1000, 0);
}

// ---- contexts
API CUresult cuDevicePrimaryCtxRetain(void **ctx, int dev) {
  ENTER(0);
  pthread_mutex_lock(&mu);
  struct ctx *c = &primary[dev];
  if (!c->refs++) { c->o.kind = CTX; c->o.dead = c->poison = 0; c->device = dev; c->o.ctx = c; }
  *ctx = c;
  pthread_mutex_unlock(&mu);
  return 0;
}
API CUresult cuDevicePrimaryCtxRelease_v2(int dev) {
  ENTER(0);
  pthread_mutex_lock(&mu);
  struct ctx *c = &primary[dev];
  int code = c->refs > 0 ? 0 : 201;
  if (!code && !--c->refs) { c->o.dead = 1; peers[dev] = 0; for (int i = 0; i < 8; i++) peers[i] &= ~(1u << dev); }
  pthread_mutex_unlock(&mu);
  return code;
}
API CUresult cuCtxPushCurrent_v2(struct ctx *c) {
  ENTER(0);
  if (!c || c->o.kind != CTX || c->o.dead || depth == 64) return 201;
  stack[depth++] = c;
  return 0;
}
API CUresult cuCtxPopCurrent_v2(struct ctx **c) { ENTER(0); if (!depth) return 201; *c = stack[--depth]; return 0; }
API CUresult cuCtxGetDevice(int *dev) { ENTER(1); *dev = current()->device; return 0; }
API CUresult cuCtxSynchronize(void) { ENTER(1); return 0; }

// ---- memory
API CUresult cuMemGetInfo_v2(size_t *free_, size_t *total) { ENTER(1); *free_ = (size_t)100 << 30; *total = (size_t)144 << 30; return 0; }
static CUresult alloc(void **p, size_t n, enum kind kind) {
  if (!n) return 1;
  if (n > (size_t)1 << 34) return 2;
  struct mem *m = make(sizeof *m, kind);
  if (posix_memalign((void **)&m->p, 256, n)) abort();
  memset(m->p, 0xAA, n);
  m->n = n;
  *p = m->p;
  pthread_mutex_lock(&mu); m->next = mems; mems = m; pthread_mutex_unlock(&mu);
  return 0;
}
enum { REGISTERED = 0x100 }; // host memory that is not the driver's
static CUresult release(void *p, enum kind kind) {
  pthread_mutex_lock(&mu);
  struct mem **at = &mems;
  while (*at && (*at)->p != p) at = &(*at)->next;
  struct mem *m = *at;
  if (m) *at = m->next;
  pthread_mutex_unlock(&mu);
  if (!m || bad(m, kind)) return 1;
  if (!(m->flags & REGISTERED)) free(m->p);
  return destroy(m, kind);
}
static int reaches(int from, int device) { return from < 8 && (from == device || peers[from] >> device & 1); }
static int owner(void *p, size_t n) { // the device of [p, p+n) if it is all in one piece that the current one may use, 99 of the host, else -1
  int from = current()->device, r = -1;
  pthread_mutex_lock(&mu);
  for (struct mem *m = mems; m; m = m->next)
    if ((char *)p >= m->p && (char *)p + n <= m->p + m->n) {
      if (m->o.kind == MEM && reaches(from, m->o.ctx->device)) r = m->o.ctx->device;
      if (m->o.kind == HOSTMEM && m->flags & 2) r = 99;
    }
  for (struct range *g = ranges; g; g = g->next)
    if (g->mapped && (char *)p >= g->p && (char *)p + n <= g->p + g->n && from < 8 && g->access >> from & 1) r = g->device;
  pthread_mutex_unlock(&mu);
  return r;
}
static int outside(void *p, size_t n) { return owner(p, n) < 0; }
static int dropped(void *p, size_t n) { // does a store get lost on its way to another device?
  int device = owner(p, n);
  if (drop_stores < 0) drop_stores = getenv("FAKE_DROP_PEER_STORES") != NULL;
  return drop_stores && device != 99 && device != current()->device;
}
API CUresult cuMemAlloc_v2(void **p, size_t n) { ENTER(1); return alloc(p, n, MEM); }
API CUresult cuMemFree_v2(void *p) { ENTER(1); return release(p, MEM); }
API CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) {
  ENTER(1);
  CUresult code = flags > 7 ? 1 : alloc(p, n, HOSTMEM);
  if (!code) { pthread_mutex_lock(&mu); for (struct mem *m = mems; m; m = m->next) if (m->p == *p) m->flags = flags; pthread_mutex_unlock(&mu); }
  return code;
}
API CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
  ENTER(1);
  if (!n || (uintptr_t)p % 4096 || flags > 15) return 1;
  struct mem *m = make(sizeof *m, HOSTMEM);
  m->p = p; m->n = n; m->flags = flags | REGISTERED;
  pthread_mutex_lock(&mu); m->next = mems; mems = m; pthread_mutex_unlock(&mu);
  return 0;
}
API CUresult cuMemHostUnregister(void *p) { ENTER(1); return release(p, HOSTMEM); }
API CUresult cuMemHostGetDevicePointer_v2(void **d, void *p, unsigned flags) { ENTER(1); if (flags || owner(p, 1) != 99) return 1; *d = p; return 0; }
API CUresult cuMemFreeHost(void *p) { ENTER(1); return release(p, HOSTMEM); }
API CUresult cuMemcpyHtoDAsync_v2(void *d, const void *s, size_t n, void *st) { ENTER(1); if (bad_stream(st)) return 400; if (outside(d, n)) return 1; if (!dropped(d, n)) memcpy(d, s, n); return 0; }
API CUresult cuMemcpyDtoHAsync_v2(void *d, void *s, size_t n, void *st) { ENTER(1); if (bad_stream(st)) return 400; if (outside(s, n)) return 1; memcpy(d, s, n); return 0; }
API CUresult cuMemcpyDtoDAsync_v2(void *d, void *s, size_t n, void *st) { ENTER(1); if (bad_stream(st)) return 400; if (outside(d, n) || outside(s, n)) return 1; if (!dropped(d, n)) memmove(d, s, n); return 0; }
API CUresult cuMemsetD8Async(void *d, unsigned char v, size_t n, void *st) { ENTER(1); if (bad_stream(st)) return 400; if (outside(d, n)) return 1; if (!dropped(d, n)) memset(d, v, n); return 0; }
API CUresult cuMemsetD32Async(unsigned *d, unsigned v, size_t n, void *st) { ENTER(1); if (bad_stream(st)) return 400; if (outside(d, n * 4) || (uintptr_t)d % 4) return 1; if (!dropped(d, n * 4)) while (n--) *d++ = v; return 0; }

// ---- peers, and memory that is shared by file
API CUresult cuDeviceCanAccessPeer(int *yes, int dev, int peer) { ENTER(0); if (dev >= ndev || peer >= ndev) return 101; *yes = !no_peers && dev != peer; return 0; }
API CUresult cuCtxEnablePeerAccess(struct ctx *peer, unsigned flags) {
  ENTER(1);
  if (!peer || peer->o.kind != CTX || peer->o.dead || peer == current()) return 201;
  if (flags) return 1;
  if (no_peers) return 217;
  pthread_mutex_lock(&mu);
  unsigned *mine = &peers[current()->device], had = *mine;
  *mine |= 1u << peer->device;
  pthread_mutex_unlock(&mu);
  return had == *mine ? 704 : 0;
}
struct prop { int kind, handles, location, device; void *win32; unsigned char compression, rdma; unsigned short usage; unsigned char reserved[4]; };
_Static_assert(sizeof(struct prop) == 32, "layout of CUmemAllocationProp");
enum { GRAIN = 2 << 20, TAG = 4096 };
static int bad_prop(struct prop *p) { return p->kind != 1 || p->handles != 1 || p->location != 1 || p->device < 0 || p->device >= ndev || p->win32 || p->compression || p->usage; }
static CUresult bad_phys(struct phys *h) { // memory belongs to no context
  if (h && h->o.kind == PHYS && !h->o.dead) return 0;
  __atomic_add_fetch(&bad_handles, 1, __ATOMIC_SEQ_CST);
  return 1;
}
static struct phys *phys(int fd, int device, size_t n) {
  struct phys *h = make(sizeof *h, PHYS);
  h->fd = fd; h->device = device; h->n = n;
  return h;
}
API CUresult cuMemGetAllocationGranularity(size_t *n, struct prop *p, int option) { ENTER(1); if (bad_prop(p) || option) return 1; *n = GRAIN; return 0; }
API CUresult cuMemCreate(struct phys **h, size_t n, struct prop *p, u64 flags) {
  ENTER(1);
  if (!n || n % GRAIN || bad_prop(p) || flags) return 1;
  if (n > (size_t)1 << 34) return 2;
  int fd = memfd_create("fake gpu", 0);
  if (fd < 0 || ftruncate(fd, n + TAG) || pwrite(fd, &p->device, 4, n) != 4) return 999;
  *h = phys(fd, p->device, n);
  return 0;
}
API CUresult cuMemRelease(struct phys *h) { ENTER(1); if (bad_phys(h)) return 1; h->o.dead = 1; close(h->fd); __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST); return 0; }
API CUresult cuMemExportToShareableHandle(int *fd, struct phys *h, int type, u64 flags) { ENTER(1); if (bad_phys(h) || type != 1 || flags) return 1; *fd = dup(h->fd); return *fd < 0 ? 999 : 0; }
API CUresult cuMemImportFromShareableHandle(struct phys **h, void *os, int type) {
  ENTER(1);
  struct stat st;
  int fd = dup((int)(intptr_t)os), device;
  if (fd < 0) return 1;
  if (type != 1 || fstat(fd, &st) || st.st_size < GRAIN + TAG || (st.st_size - TAG) % GRAIN || pread(fd, &device, 4, st.st_size - TAG) != 4) { close(fd); return 1; }
  *h = phys(fd, device, st.st_size - TAG);
  return 0;
}
static struct range *range(char *p, size_t n) {
  struct range *g = ranges;
  while (g && (g->p != p || g->n != n)) g = g->next;
  return g;
}
API CUresult cuMemAddressReserve(void **p, size_t n, size_t align, void *hint, u64 flags) {
  ENTER(1);
  if (!n || n % GRAIN || align || hint || flags) return 1;
  struct range *g = calloc(1, sizeof *g);
  g->n = n;
  *p = g->p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  pthread_mutex_lock(&mu); g->next = ranges; ranges = g; pthread_mutex_unlock(&mu);
  __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return 0;
}
API CUresult cuMemAddressFree(char *p, size_t n) {
  ENTER(1);
  pthread_mutex_lock(&mu);
  struct range *g = range(p, n), **at = &ranges;
  int ok = g && !g->mapped;
  while (ok && *at != g) at = &(*at)->next;
  if (ok) *at = g->next;
  pthread_mutex_unlock(&mu);
  if (!ok) return 1;
  munmap(p, n);
  free(g);
  __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return 0;
}
API CUresult cuMemMap(char *p, size_t n, size_t offset, struct phys *h, u64 flags) {
  ENTER(1);
  if (bad_phys(h) || offset || flags || n > h->n) return 1;
  pthread_mutex_lock(&mu);
  struct range *g = range(p, n);
  int ok = g && !g->mapped && mmap(p, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->fd, 0) == p;
  if (ok) { g->mapped = 1; g->device = h->device; g->access = 0; }
  pthread_mutex_unlock(&mu);
  if (ok) __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return !ok;
}
API CUresult cuMemUnmap(char *p, size_t n) {
  ENTER(1);
  pthread_mutex_lock(&mu);
  struct range *g = range(p, n);
  int ok = g && g->mapped && mmap(p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == p;
  if (ok) g->mapped = 0;
  pthread_mutex_unlock(&mu);
  if (ok) __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return !ok;
}
struct access { int kind, device, flags; };
API CUresult cuMemSetAccess(char *p, size_t n, struct access *list, size_t count) {
  ENTER(1);
  pthread_mutex_lock(&mu);
  struct range *g = range(p, n);
  CUresult code = g && g->mapped && count ? 0 : 1;
  for (size_t i = 0; !code && i < count; i++) {
    if (list[i].kind != 1 || (list[i].flags != 0 && list[i].flags != 3)) code = 1;
    else if (list[i].device < 0 || list[i].device >= ndev || (no_peers && list[i].device != g->device)) code = 101;
    else g->access = (g->access & ~(1u << list[i].device)) | (list[i].flags == 3) << list[i].device;
  }
  pthread_mutex_unlock(&mu);
  return code;
}

// ---- streams and events
API CUresult cuStreamCreate(void **s, unsigned flags) { ENTER(1); if (flags != 1) return 1; *s = make(sizeof(struct stream), STREAM); return 0; }
API CUresult cuStreamDestroy_v2(void *s) { ENTER(1); return destroy(s, STREAM); }
static CUresult wait_hold(void) {
  while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST)) usleep(100);
  return current()->poison;
}
API CUresult cuStreamSynchronize(void *s) { ENTER(1); if (bad_stream(s)) return 400; if (s > (void *)2 && ((struct stream *)s)->capturing) return 900; return wait_hold(); }
API CUresult cuStreamQuery(void *s) { ENTER(1); return bad_stream(s) ? 400 : hold ? 600 : 0; }
API CUresult cuStreamWaitEvent(void *s, void *e, unsigned flags) { ENTER(1); return bad_stream(s) || bad(e, EVENT) ? 400 : flags ? 1 : 0; }
API CUresult cuEventCreate(void **e, unsigned flags) { ENTER(1); if (flags & ~7u) return 1; *e = make(sizeof(struct event), EVENT); return 0; }
API CUresult cuEventDestroy_v2(void *e) { ENTER(1); return destroy(e, EVENT); }
API CUresult cuEventRecord(struct event *e, void *s) {
  ENTER(1);
  if (bad(e, EVENT) || bad_stream(s)) return 400;
  pthread_mutex_lock(&mu); e->recorded = 1; e->ms = clock_ms += 1.5; pthread_mutex_unlock(&mu);
  return 0;
}
API CUresult cuEventQuery(struct event *e) { ENTER(1); return bad(e, EVENT) ? 400 : hold && e->recorded ? 600 : 0; }
API CUresult cuEventSynchronize(struct event *e) { ENTER(1); return bad(e, EVENT) ? 400 : wait_hold(); }
API CUresult cuEventElapsedTime(float *ms, struct event *a, struct event *b) { ENTER(1); if (bad(a, EVENT) || bad(b, EVENT)) return 400; *ms = b->ms - a->ms; return 0; }

// ---- modules
static unsigned write_log(char *to, unsigned cap, const char *text, unsigned pad) { // fills at most cap bytes, NUL included
  unsigned n = 0;
  for (; text[n] && n + 1 < cap; n++) to[n] = text[n];
  for (unsigned i = 0; i < pad && n + 1 < cap; i++, n++) to[n] = "x\n"[i % 64 == 63];
  if (cap) to[n] = 0;
  return n ? n + 1 : 0;
}
static void logs(unsigned nopt, int *opts, void **vals, const char *info, const char *err) {
  for (unsigned i = 0; i < nopt; i++) {
    if (opts[i] == 3 && opts[i + 1] == 4) vals[i + 1] = (void *)(uintptr_t)write_log(vals[i], (unsigned)(uintptr_t)vals[i + 1], info, log_info);
    if (opts[i] == 5 && opts[i + 1] == 6) vals[i + 1] = (void *)(uintptr_t)write_log(vals[i], (unsigned)(uintptr_t)vals[i + 1], err, log_err);
  }
}
static int option(unsigned nopt, int *opts, void **vals, int which) {
  for (unsigned i = 0; i < nopt; i++) if (opts[i] == which) return (int)(uintptr_t)vals[i];
  return -1;
}
static CUresult compile(const char *ptx, unsigned nopt, int *opts, void **vals) {
  char info[200] = "", err[200] = "";
  CUresult code = 0;
  double v = 0;
  const char *ver = strstr(ptx, ".version"), *oops = strstr(ptx, "bad.instruction");
  if (ver) v = atof(ver + 8);
  if (!ver || oops) {
    int line = 1;
    for (const char *p = ptx; p < oops; p++) line += *p == '\n';
    snprintf(err, sizeof err, "ptxas application ptx input, line %d; error   : Not a name of any known instruction: 'bad'\nptxas fatal   : Ptx assembly aborted due to errors\n", line);
    code = 218;
  } else if (v > 8.45) code = 222;
  else if (option(nopt, opts, vals, 12) == 1)
    snprintf(info, sizeof info, "ptxas info : Used %d registers, opt %d, lineinfo %d", option(nopt, opts, vals, 0), option(nopt, opts, vals, 7), option(nopt, opts, vals, 13));
  logs(nopt, opts, vals, info, err);
  return code;
}
static void entries(struct module *m, const char *ptx) { // reads the .entry names and the sizes of their parameters
  for (const char *p = ptx; (p = strstr(p, ".entry "));) {
    p += 7;
    struct func *f = make(sizeof *f, FUNC);
    __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST); // lives with the module
    int n = strcspn(p, " (\n");
    snprintf(f->name, sizeof f->name, "%.*s", n, p);
    const char *end = strchr(p, ')');
    for (const char *q = p; end && (q = strstr(q, ".param ")) && q < end; q++) {
      const char *stop = q + strcspn(q, ",)"), *array = memchr(q, '[', stop - q);
      f->params[f->nparams++].size = array ? atoi(array + 1) : strstr(q, "64 ") && strstr(q, "64 ") < stop ? 8 : 4;
    }
    f->next = m->funcs;
    m->funcs = f;
  }
}
API CUresult cuModuleLoadDataEx(void **out, const char *image, unsigned nopt, int *opts, void **vals) {
  ENTER(1);
  if (!memcmp(image, "\x7f" "ELF", 4)) image += 64;
  else { CUresult code = compile(image, nopt, opts, vals); if (code) return code; }
  struct module *m = make(sizeof *m, MODULE);
  entries(m, image);
  *out = m;
  return 0;
}
API CUresult cuModuleUnload(struct module *m) { ENTER(1); for (struct func *f = m->funcs; f; f = f->next) f->o.dead = 1; return destroy(m, MODULE); }
API CUresult cuModuleGetFunction(void **out, struct module *m, const char *name) {
  ENTER(1);
  if (bad(m, MODULE)) return 400;
  for (struct func *f = m->funcs; f; f = f->next) if (!strcmp(f->name, name)) return *out = f, 0;
  return 500;
}
API CUresult cuLinkCreate_v2(unsigned n, int *opts, void **vals, void **out) { ENTER(1); struct link *l = make(sizeof *l, LINK); l->nopt = n; l->opts = opts; l->vals = vals; l->thread = pthread_self(); *out = l; return 0; }
// A linker is for the thread that made it: calls from others crash the driver. The fake fails them.
static int stranger(struct link *l) { return bad(l, LINK) || !pthread_equal(l->thread, pthread_self()); }
API CUresult cuLinkAddData_v2(struct link *l, int type, const char *data, size_t n, const char *name, unsigned nopt, void *o, void *v) {
  ENTER(1);
  if (stranger(l)) return 400;
  if (type != 1 || !n || data[n - 1] || strcmp(name, "kernel.ptx") || nopt || o || v) return 1;
  CUresult code = compile(data, l->nopt, l->opts, l->vals);
  if (code) return code;
  l->size = 64 + n;
  l->image = calloc(1, l->size);
  memcpy(l->image, "\x7f" "ELF\2\1", 6);
  l->image[32] = l->image[40] = 64;
  memcpy(l->image + 64, data, n);
  return 0;
}
API CUresult cuLinkComplete(struct link *l, void **image, size_t *n) { ENTER(1); if (stranger(l)) return 400; *image = l->image; *n = l->size; return 0; }
API CUresult cuLinkDestroy(struct link *l) {
  ENTER(1);
  if (stranger(l)) return 400;
  if (l->image) { memset(l->image, 0xDD, l->size); free(l->image); }
  logs(l->nopt, l->opts, l->vals, "", ""); // a driver may still write here
  return destroy(l, LINK);
}
API CUresult cuFuncLoad(void *f) { ENTER(1); return bad(f, FUNC) ? 400 : 0; }
API CUresult cuFuncGetAttribute(int *v, int a, struct func *f) { ENTER(1); if (bad(f, FUNC)) return 400; *v = a == 8 ? f->max_dynamic : a == 9 ? f->carveout : a == 14 ? f->non_portable : a == 4 ? 168 : a * 10; return a > 16 ? 1 : 0; }
API CUresult cuFuncSetAttribute(struct func *f, int a, int v) {
  ENTER(1);
  if (bad(f, FUNC)) return 400;
  if (a == 8 && v >= 0 && v <= 232448) return f->max_dynamic = v, 0;
  if (a == 9 && v >= 0 && v <= 100) return f->carveout = v, 0;
  if (a == 14) return f->non_portable = v, 0;
  return 1;
}
API CUresult cuFuncGetParamInfo(struct func *f, size_t i, size_t *off, size_t *size) {
  ENTER(1);
  if (bad(f, FUNC)) return 400;
  if (i >= (size_t)f->nparams) return 1;
  *off = 0; *size = f->params[i].size;
  return 0;
}

// ---- launches
struct config { unsigned grid[3], block[3], shared; void *stream; struct attr { int id; int pad; unsigned v[16]; } *attrs; unsigned n; };
_Static_assert(sizeof(struct config) == 56 && offsetof(struct config, stream) == 32 && sizeof(struct attr) == 72, "layout of CUlaunchConfig");
static void run(struct func *f, struct launch *l) {
  pthread_mutex_lock(&mu); before = last; last = *l; pthread_mutex_unlock(&mu);
  if (!strcmp(f->name, "fill")) { // fill(u64 p, u32 value, u32 n)
    unsigned *p, v, n;
    memcpy(&p, l->params, 8); memcpy(&v, l->params + 8, 4); memcpy(&n, l->params + 12, 4);
    for (unsigned i = 0; i < n; i++) p[i] = v;
  }
  if (!strcmp(f->name, "crash")) f->o.ctx->poison = 719;
}
API CUresult cuLaunchKernelEx(struct config *c, struct func *f, void **params, void **extra) {
  if (quick) return 0;
  ENTER(1);
  if (bad(f, FUNC) || bad_stream(c->stream)) return 400;
  if (extra || !c->grid[0] || !c->block[0] || (c->n && !c->attrs)) return 1;
  if (c->shared > (unsigned)(f->max_dynamic ? f->max_dynamic : 49152)) return 1;
  struct launch l = {.shared = c->shared, .stream = (u64)c->stream, .nparams = f->nparams, .aligned = 1};
  memcpy(l.grid, c->grid, 12); memcpy(l.block, c->block, 12);
  for (unsigned i = 0; i < c->n; i++) {
    if (c->attrs[i].id == 4) memcpy(l.cluster, c->attrs[i].v, 12);
    else if (c->attrs[i].id == 6) l.programmatic = c->attrs[i].v[0];
    else return 1;
  }
  for (int i = 0, at = 0; i < f->nparams; at += f->params[i++].size) {
    memcpy(l.params + at, params[i], f->params[i].size);
    if (f->params[i].size == 128 && (uintptr_t)params[i] % 64) l.aligned = 0;
  }
  struct stream *s = c->stream;
  if (s > (struct stream *)2 && s->capturing) {
    struct node *n = calloc(1, sizeof *n), **at = &s->graph->head;
    n->f = f; n->l = l;
    while (*at) at = &(*at)->next;
    *at = n;
    return 0;
  }
  run(f, &l);
  return 0;
}
API CUresult cuOccupancyMaxActiveClusters(int *n, struct func *f, struct config *c) { ENTER(1); if (bad(f, FUNC)) return 400; if (c->n < 1 || c->attrs[0].id != 4) return 1; *n = 132 / c->attrs[0].v[0]; return 0; }
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, struct func *f, int threads, size_t shared) { ENTER(1); if (bad(f, FUNC)) return 400; *n = 2048 / threads; return 0; }
API CUresult cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *addr, u64 *dims, u64 *strides, unsigned *box, unsigned *steps, int interleave, int swizzle, int l2, int oob) {
  ENTER(1);
  if ((uintptr_t)map % 64) return 1;
  u64 words[16] = {type, rank, (u64)addr, interleave, swizzle, l2, oob, dims[0], rank > 1 ? dims[1] : 0, rank > 1 ? strides[0] : 0, box[0], rank > 1 ? box[1] : 0, steps[0], rank > 1 ? steps[1] : 0, 0x5eed, 0xfeed};
  memcpy(map, words, 128);
  return 0;
}

// ---- graphs
API CUresult cuStreamBeginCapture_v2(struct stream *s, int mode) { ENTER(1); if (bad(s, STREAM)) return 400; if (mode != 1 || s->capturing) return 1; s->capturing = 1; s->owner = pthread_self(); s->graph = make(sizeof(struct graph), GRAPH); return 0; }
API CUresult cuStreamEndCapture(struct stream *s, void **g) {
  ENTER(1);
  if (bad(s, STREAM)) return 400;
  *g = NULL;
  if (!s->capturing) return 903;
  if (!pthread_equal(s->owner, pthread_self())) return 908;
  s->capturing = 0;
  *g = s->graph;
  return 0;
}
API CUresult cuStreamIsCapturing(struct stream *s, int *status) { ENTER(1); if (bad_stream(s)) return 400; *status = s > (struct stream *)2 ? s->capturing : 0; return 0; }
API CUresult cuGraphInstantiateWithFlags(void **e, struct graph *g, u64 flags) { ENTER(1); if (bad(g, GRAPH)) return 400; struct graph *x = make(sizeof *x, EXEC); x->head = g->head; *e = x; return flags ? 1 : 0; }
API CUresult cuGraphLaunch(struct graph *e, void *s) { ENTER(1); if (bad(e, EXEC) || bad_stream(s)) return 400; for (struct node *n = e->head; n; n = n->next) { if (n->f->o.dead) return 400; run(n->f, &n->l); } return 0; }
API CUresult cuGraphDestroy(void *g) { ENTER(1); return destroy(g, GRAPH); }
API CUresult cuGraphExecDestroy(void *e) { ENTER(1); return destroy(e, EXEC); }
