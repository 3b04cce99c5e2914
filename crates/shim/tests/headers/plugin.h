/* What a plugin does, under the names that CALL makes. */
static int version(void) {
    miopenHandle_t handle;
    size_t major = 0, minor = 0, patch = 0;
    struct miopenTensorArgument_t arguments[2] = {{100}, {200}};
    if (CALL(miopenCreate)(&handle) || CALL(miopenGetVersion)(&major, &minor, &patch) || CALL(miopenDestroy)(handle))
        return -1;
    return (int)(major * 10 + minor + patch) + CALL(miopenRunSolution)(arguments, 2);
}
