// A stand-in for libcublasLt, for tests on machines without a GPU: device memory is host memory, and the multiplication is
// done at once, by the descriptors that it was given. What the library insists on is insisted on: live handles, known
// attributes of the right size, dimensions that fit. Functions named fake_* are the tests' controls.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HANDLE = 1, DESC, LAYOUT, PREFERENCE };
struct handle { int kind; };
struct desc { int kind, compute, scale, transa; };
struct layout { int kind, type; uint64_t rows, cols; int64_t ld; };
struct preference { int kind; uint64_t workspace; };
struct algo { uint64_t magic, index, rest[6]; };
struct result { struct algo algo; uint64_t workspace; int status; float waves; int reserved[4]; };

static int live, fail_status, algorithms = 3, last_algorithm = -1;
static const char *fail_name = "";
static uint64_t last_stream, last_workspace;
int fake_live(void) { return live; }
int fake_last_algorithm(void) { return last_algorithm; }
int fake_last_stream(void) { return (int)last_stream; }
int fake_last_workspace(void) { return (int)last_workspace; }
int fake_algorithms(int n) { algorithms = n; return 0; }
int fake_fail(const char *name, int status) { fail_name = strdup(name); fail_status = status; return 0; }
#define ENTER() do { if (!strcmp(fail_name, __func__)) return fail_status; } while (0)

static void *make(size_t n, int kind) { int *p = calloc(1, n); *p = kind; live++; return p; }
static int destroy(void *p, int kind) { if (!p || *(int *)p != kind) return 7; *(int *)p = -kind; live--; return 0; }
static int is(const void *p, int kind) { return p && *(const int *)p == kind; }

size_t cublasLtGetVersion(void) { return 130102; }
int cublasLtCreate(struct handle **h) { ENTER(); *h = make(sizeof **h, HANDLE); return 0; }
int cublasLtDestroy(struct handle *h) { ENTER(); return destroy(h, HANDLE); }
int cublasLtMatmulDescCreate(struct desc **d, int compute, int scale) {
  ENTER();
  *d = make(sizeof **d, DESC);
  (*d)->compute = compute; (*d)->scale = scale;
  return 0;
}
int cublasLtMatmulDescDestroy(struct desc *d) { ENTER(); return destroy(d, DESC); }
int cublasLtMatmulDescSetAttribute(struct desc *d, int attribute, const void *p, size_t n) {
  ENTER();
  if (!is(d, DESC) || attribute != 3 || n != 4) return 7;
  memcpy(&d->transa, p, 4);
  return 0;
}
int cublasLtMatrixLayoutCreate(struct layout **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  ENTER();
  if (ld < (int64_t)rows) return 7;
  *l = make(sizeof **l, LAYOUT);
  (*l)->type = type; (*l)->rows = rows; (*l)->cols = cols; (*l)->ld = ld;
  return 0;
}
int cublasLtMatrixLayoutDestroy(struct layout *l) { ENTER(); return destroy(l, LAYOUT); }
int cublasLtMatmulPreferenceCreate(struct preference **p) { ENTER(); *p = make(sizeof **p, PREFERENCE); return 0; }
int cublasLtMatmulPreferenceDestroy(struct preference *p) { ENTER(); return destroy(p, PREFERENCE); }
int cublasLtMatmulPreferenceSetAttribute(struct preference *p, int attribute, const void *v, size_t n) {
  ENTER();
  if (!is(p, PREFERENCE) || attribute != 1 || n != 8) return 7;
  memcpy(&p->workspace, v, 8);
  return 0;
}

static int fits(struct desc *d, struct layout *a, struct layout *b, struct layout *c) {
  return is(d, DESC) && is(a, LAYOUT) && is(b, LAYOUT) && is(c, LAYOUT) && d->compute == 68 && d->scale == 0 && d->transa == 1 &&
         a->type == 14 && b->type == 14 && c->type == 14 && a->rows == b->rows && a->cols == c->rows && b->cols == c->cols;
}
// Proposes algorithms, the second of which is not for this device and the last of which wants too much workspace.
int cublasLtMatmulAlgoGetHeuristic(struct handle *h, struct desc *desc, struct layout *a, struct layout *b, struct layout *c,
    struct layout *d, struct preference *p, int want, struct result *out, int *found) {
  ENTER();
  if (!is(h, HANDLE) || !is(p, PREFERENCE) || c != d || want < 1 || !fits(desc, a, b, c)) return 7;
  *found = want < algorithms ? want : algorithms;
  for (int i = 0; i < *found; i++) {
    struct result *r = memset(out + i, 0, sizeof *r);
    r->algo.magic = 0xfa4e; r->algo.index = i;
    r->workspace = i == algorithms - 1 && i > 0 ? p->workspace + 1 : 1024;
    r->status = i == 1 ? 8 : 0;
    r->waves = 1;
  }
  return 0;
}

static float value(uint16_t x) { uint32_t u = (uint32_t)x << 16; float f; memcpy(&f, &u, 4); return f; }
static uint16_t rounded(float f) { uint32_t u; memcpy(&u, &f, 4); return (u + 0x7fff + (u >> 16 & 1)) >> 16; }
int cublasLtMatmul(struct handle *h, struct desc *desc, const float *alpha, const uint16_t *a, struct layout *al, const uint16_t *b,
    struct layout *bl, const float *beta, const uint16_t *c, struct layout *cl, uint16_t *d, struct layout *dl,
    const struct algo *algo, void *workspace, size_t workspace_bytes, uint64_t stream) {
  ENTER();
  if (!is(h, HANDLE) || !fits(desc, al, bl, dl) || c != d || cl != dl || algo->magic != 0xfa4e || *beta != 0) return 7;
  for (uint64_t n = 0; n < dl->cols; n++)
    for (uint64_t m = 0; m < dl->rows; m++) {
      float sum = 0;
      for (uint64_t k = 0; k < al->rows; k++) sum += value(a[m * al->ld + k]) * value(b[n * bl->ld + k]);
      d[n * dl->ld + m] = rounded(*alpha * sum);
    }
  last_algorithm = (int)algo->index; last_stream = stream; last_workspace = workspace_bytes;
  return 0;
}
