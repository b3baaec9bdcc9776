// A stand-in for libnccl, for tests on machines without a GPU: device memory is host memory, ranks are goroutines of one process,
// and a gather is done when its last rank has called. What the library insists on is insisted on: live communicators, a
// configuration with its magic, one process a rank, the same size on all ranks. Functions named fake_* are the tests' controls.
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, CUDA_ERROR, SYSTEM, INTERNAL, ARGUMENT, USAGE, REMOTE, PROGRESS };
typedef struct { char bytes[128]; } id_t128;
struct config { size_t size; unsigned magic, version; int blocking; };
_Static_assert(sizeof(struct config) == 24, "layout of ncclConfig_t of 2.14");
struct call { const void *send; void *recv; };
struct group { id_t128 id; int n, came, size_known; char taken[64]; struct call calls[64]; int called; size_t bytes; struct group *next; };
struct comm { int live, rank, blocking, state, polls; struct group *g; };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct group *groups;
static int version = 22005, live, bad, progress, fail_status, ids;
static const char *fail_name = "", *last_error = "";
static char log_text[1 << 16];

// logged adds to the record of calls. The caller holds mu.
static void logged(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void logged(const char *format, ...) {
  va_list list;
  va_start(list, format);
  size_t n = strlen(log_text);
  vsnprintf(log_text + n, sizeof log_text - n, format, list);
  va_end(list);
}

// fake_progress: how often a communicator that does not block is still at work when it is asked; -1 is for ever.
int fake_live(void) { return live; }
int fake_forget(void) { live = 0; return 0; }
int fake_bad(void) { return bad; }
int fake_version(int v) { version = v; return 0; }
int fake_progress(int n) { progress = n; return 0; }
int fake_fail(const char *name, int status) { fail_name = strdup(name); fail_status = status; return 0; }
int fake_async(struct comm *c, int status) { c->state = status; last_error = "socket closed by peer"; return 0; }
const char *fake_log(int clear) {
  static char copy[1 << 16];
  pthread_mutex_lock(&mu);
  memcpy(copy, log_text, sizeof copy);
  if (clear) *log_text = 0;
  pthread_mutex_unlock(&mu);
  return copy;
}
#define ENTER() do { if (!strcmp(fail_name, __func__)) { last_error = "as the test wanted"; return fail_status; } } while (0)

static int is_bad(struct comm *c) { if (c && c->live == 1) return 0; bad++; return 1; }
static int started(struct comm *c) { // what a call returns whose work goes on in the background
  if (c->blocking || !progress) return OK;
  c->polls = progress;
  return PROGRESS;
}

int ncclGetVersion(int *v) { ENTER(); *v = version; return OK; }
const char *ncclGetErrorString(int r) {
  static const char *words[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"};
  return r >= 0 && r < 8 ? words[r] : "unknown result code";
}
const char *ncclGetLastError(void *comm) { return comm ? "asked of a communicator" : last_error; }
int ncclGetUniqueId(id_t128 *id) {
  ENTER();
  for (int i = 0; i < 128; i++) id->bytes[i] = i * 7 + ids;
  ids++;
  return OK;
}
int ncclCommInitRankConfig(struct comm **out, int n, id_t128 id, int rank, struct config *config) {
  *out = NULL;
  ENTER();
  if (n < 1 || n > 64 || rank < 0 || rank >= n || config->magic != 0xcafebeef || config->size < 24 || config->version < 21400) return ARGUMENT;
  if (config->blocking != 0 && config->blocking != 1 && config->blocking != INT_MIN) return ARGUMENT;
  pthread_mutex_lock(&mu);
  struct group *g = groups;
  while (g && memcmp(&g->id, &id, sizeof id)) g = g->next;
  if (!g) { g = calloc(1, sizeof *g); g->id = id; g->n = n; g->next = groups; groups = g; }
  int code = g->n != n || g->taken[rank] ? USAGE : OK;
  if (!code) {
    g->taken[rank] = 1;
    struct comm *c = calloc(1, sizeof *c);
    c->live = 1; c->rank = rank; c->g = g; c->blocking = config->blocking != 0;
    live++;
    *out = c;
    code = started(c);
    unsigned sum = 0;
    for (int i = 0; i < 128; i++) sum = sum * 31 + (unsigned char)id.bytes[i];
    logged("init n=%d rank=%d id=%08x blocking=%d\n", n, rank, sum, config->blocking);
  }
  pthread_mutex_unlock(&mu);
  return code;
}
int ncclCommGetAsyncError(struct comm *c, int *state) {
  ENTER();
  pthread_mutex_lock(&mu);
  int code = is_bad(c) ? ARGUMENT : OK;
  if (!code) *state = c->polls < 0 || c->polls-- > 0 ? PROGRESS : c->state;
  if (!code && c->polls < 0 && progress >= 0) c->polls = 0;
  pthread_mutex_unlock(&mu);
  return code;
}
int ncclAllGather(const void *send, void *recv, size_t n, int type, struct comm *c, void *stream) {
  ENTER();
  pthread_mutex_lock(&mu);
  int code = is_bad(c) || type != 1 ? ARGUMENT : c->state;
  struct group *g = code ? NULL : c->g;
  if (g && ((g->called && g->bytes != n) || g->calls[c->rank].recv)) { g = NULL; code = USAGE; }
  if (g) {
    logged("gather rank=%d bytes=%zu stream=%zu\n", c->rank, n, (size_t)stream);
    g->bytes = n;
    g->calls[c->rank] = (struct call){send, recv};
    if (++g->called == g->n) {
      for (int to = 0; to < g->n; to++)
        for (int from = 0; from < g->n; from++) memmove((char *)g->calls[to].recv + from * n, g->calls[from].send, n);
      memset(g->calls, 0, sizeof g->calls);
      g->called = 0;
    }
    code = started(c);
  }
  pthread_mutex_unlock(&mu);
  return code;
}
int ncclCommFinalize(struct comm *c) {
  ENTER();
  pthread_mutex_lock(&mu);
  int code = is_bad(c) ? ARGUMENT : OK;
  if (!code) { logged("finalize rank=%d\n", c->rank); code = started(c); }
  pthread_mutex_unlock(&mu);
  return code;
}
static int gone(struct comm *c, const char *how) {
  pthread_mutex_lock(&mu);
  int code = is_bad(c) ? ARGUMENT : OK;
  if (!code) { logged("%s rank=%d\n", how, c->rank); c->live = 2; live--; }
  pthread_mutex_unlock(&mu);
  return code;
}
int ncclCommDestroy(struct comm *c) { ENTER(); return gone(c, "destroy"); }
int ncclCommAbort(struct comm *c) { ENTER(); return gone(c, "abort"); }
