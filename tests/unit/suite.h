/* The main() of a Check suite: SUITE(name, parts...), where a part is
 *
 *   TEST(test)                     runs a test
 *   LOOP(test, begin, end)         runs it for each _i of begin .. end - 1
 *   AROUND_EACH(setup, teardown)   calls these around each test that follows
 *   AROUND_ALL(setup, teardown)    calls these once around all tests that follow
 *
 * A test may take 300 s, or CK_DEFAULT_TIMEOUT from the environment. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <stdbool.h>
#include <stddef.h>

#include <check.h>

/* At each assertion that holds, Check would write to a file where the test is, in case it crashes:
 * four fifths of the time of a suite with many. A debugger or a sanitizer says where. */
#define _mark_point(file, line) ((void)0)

struct suite_part {
    const TTest *test; /* or none, and functions around the tests that follow */
    int begin, end;
    SFun setup, teardown;
    bool once;
};

/* Says that this test does nothing here, and why: tests/run-tests counts and names it. The test must
 * then return. */
void suite_skip(const char *what, const char *why);

/* Runs the parts in order; returns the exit status of the program. */
int suite_run(const char *name, const struct suite_part *parts, size_t n);

#define TEST(test)                      \
    {                                   \
        (test), 0, 1, NULL, NULL, false \
    }
#define LOOP(test, begin, end)                         \
    {                                                  \
        (test), (begin), (int)(end), NULL, NULL, false \
    }
#define AROUND_EACH(setup, teardown)           \
    {                                          \
        NULL, 0, 0, (setup), (teardown), false \
    }
#define AROUND_ALL(setup, teardown)           \
    {                                         \
        NULL, 0, 0, (setup), (teardown), true \
    }

#define SUITE(name, ...)                                             \
    int main(void)                                                   \
    {                                                                \
        const struct suite_part parts[] = {__VA_ARGS__};             \
        return suite_run(name, parts, sizeof parts / sizeof *parts); \
    }

#endif
