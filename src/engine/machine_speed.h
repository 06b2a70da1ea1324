/* How fast this machine reads weights, for shares that are measured (meet.h). Built with MPI=1 only. */
#ifndef ENGINE_MACHINE_SPEED_H
#define ENGINE_MACHINE_SPEED_H

#include "engine/model_handle.h"

#ifdef TERN_MPI

/* Megabytes a second that all threads of the pool multiply by one row: those of the model's head, or of the
 * part of it that takes a tenth of a second; at least 1. 0 without memory. */
uint32_t machine_speed(struct tern_model *m);

#endif

#endif
