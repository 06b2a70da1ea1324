/* Time as programs measure it. */
#ifndef CLI_STOPWATCH_H
#define CLI_STOPWATCH_H

/* Seconds of a clock that only goes forward. */
double stopwatch_now(void);

#endif
