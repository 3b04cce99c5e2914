/* Stands in for rocRAND where a test runs MIOpenDriver: a generator can be had, and it generates nothing. */
enum { SUCCESS = 0 };

static int generator;

int rocrand_create_generator(int **out, int kind) {
    (void)kind;
    *out = &generator;
    return SUCCESS;
}

int rocrand_destroy_generator(int *of) {
    (void)of;
    return SUCCESS;
}
