#ifndef MIOPEN_EXPORT_H
#define MIOPEN_EXPORT_H
#define MIOPEN_EXPORT __attribute__((visibility("default")))
#endif
