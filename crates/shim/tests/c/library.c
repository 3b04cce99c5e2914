/* A small library in the shape of MIOpen: what can go wrong when names change is in it. */
#include <stdio.h>

#define PUBLIC __attribute__((visibility("default")))

__thread int uses = 7;
static int base = 5;
PUBLIC int constructed;

PUBLIC int miopenAdd(int a, int b) { return a + b + base; }

/* Thread-local storage. */
PUBLIC int miopenTls(void) { return ++uses; }

/* Calls its own public function through the PLT. */
PUBLIC int miopenPlt(int a) { return miopenAdd(a, 1) * 2; }

/* A table of addresses of its own public functions. */
int (*const table[])(int, int) = {miopenAdd, miopenAdd};
PUBLIC int miopenTable(int i) { return table[i](1, 2); }

/* Its own address, as MIOpen takes it to find its folder. */
PUBLIC const void *miopenSelf(void) { return (const void *)miopenSelf; }

/* Arguments of every kind, in registers and on the stack. */
PUBLIC int miopenMany_V2(double a, int b, float c, long d, long e, long f, long g, long h, long i, double j)
{
    return (int)(a + b + c + d + e + f + g + h + i + j);
}

/* A structure returned in memory. */
struct big { long a[5]; };
PUBLIC struct big miopenBig(long a)
{
    struct big b = {{a, a + 1, a + 2, a + 3, a + 4}};
    return b;
}

/* A variable number of arguments: the count of vector registers is in %al. */
#include <stdarg.h>
PUBLIC double miopenSum(int n, ...)
{
    va_list list;
    va_start(list, n);
    double sum = 0;
    while (n--) sum += va_arg(list, double);
    va_end(list);
    return sum;
}

/* Chosen when it is loaded. */
static int chosen(void) { return 11; }
static void *choose(void) { return (void *)chosen; }
PUBLIC int miopenChosen(void) __attribute__((ifunc("choose")));

/* Exported and not of the API. */
PUBLIC int miopen_sqlite3_memvfs_init(void) { return 3; }
PUBLIC int helperOfMine(void) { return 4; }
PUBLIC int miopenData = 13;

__attribute__((constructor)) static void construct(void) { constructed = miopenAdd(1, 1); }
PUBLIC int miopenConstructed(void) { return constructed; }
