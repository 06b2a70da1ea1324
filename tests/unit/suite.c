/* The main() of a Check suite: see suite.h. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

void suite_skip(const char *what, const char *why)
{
    printf("skipped: %s: %s\n", what, why);
    fflush(stdout);
}

int suite_run(const char *name, const struct suite_part *parts, size_t n)
{
    setenv("CK_DEFAULT_TIMEOUT", "300", 0); /* seconds a test */
    Suite *suite = suite_create(name);
    TCase *tests = NULL;
    for (const struct suite_part *p = parts; p < parts + n; p++) {
        if (!tests || !p->test)
            suite_add_tcase(suite, tests = tcase_create(name));
        if (p->test)
            tcase_add_loop_test(tests, p->test, p->begin, p->end);
        else if (p->once)
            tcase_add_unchecked_fixture(tests, p->setup, p->teardown);
        else
            tcase_add_checked_fixture(tests, p->setup, p->teardown);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
