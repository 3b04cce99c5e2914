/* Calls every function of library.c; prints what they give. */
#include <stdio.h>

struct big { long a[5]; };
int miopenAdd(int, int), miopenTls(void), miopenPlt(int), miopenTable(int), miopenChosen(void), miopenConstructed(void);
const void *miopenSelf(void);
int miopenMany_V2(double, int, float, long, long, long, long, long, long, double);
struct big miopenBig(long);
double miopenSum(int, ...);
int miopen_sqlite3_memvfs_init(void), helperOfMine(void);
extern int miopenData;

int main(void)
{
    struct big big = miopenBig(20);
    int first = miopenTls(), second = miopenTls();
    printf("%d %d %d %d %d %d\n", miopenAdd(1, 2), first, second, miopenPlt(4), miopenTable(1), miopenConstructed());
    printf("%d %d %ld %g %d\n", miopenMany_V2(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), miopenChosen(), big.a[4], miopenSum(3, 1.5, 2.5, 3.5), miopenSelf() != 0);
    printf("%d %d %d\n", miopen_sqlite3_memvfs_init(), helperOfMine(), miopenData);
    return 0;
}
