/* The processor that the calling thread is on. */
#ifndef BASE_AFFINITY_H
#define BASE_AFFINITY_H

/* The processor that the calling thread is on; -1 where the system does not tell. */
int affinity_here(void);

/* Moves the calling thread off that processor to another that it may use, if there is one. The
 * system may bring it back. */
void affinity_leave(int cpu);

#endif
