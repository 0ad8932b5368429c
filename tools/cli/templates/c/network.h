/* The network of model.tgi over one stream. */
#ifndef NETWORK_H
#define NETWORK_H

#include "source.h"
#include "tidegate.h"

/* Handles an output of the network; `label` is that of the event or of the largest value, or null. */
typedef void decide(const float *output, const char *label);

/* Once, after reset. */
tidegate_status network_start(void);

/* With every block of samples. */
tidegate_status network_process(const sample *block, decide *act);

#endif
