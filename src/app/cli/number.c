/* Numbers: see number.h. */
#include "app/cli/number.h"

#include <stdio.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool number_u64(const char *text, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (!is_digit(text[i]) || v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    if (n)
        *out = v;
    return n != 0;
}

bool number_i64(const char *text, size_t n, int64_t *out)
{
    uint64_t v;
    bool minus = n && *text == '-';
    if (!number_u64(text + minus, n - minus, &v) || v > INT64_MAX)
        return false;
    *out = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

/* Digits into *mantissa while it has room; those that it has no room for count in *exponent. */
static const char *digits(const char *s, uint64_t *mantissa, int *exponent, bool fraction, int *n)
{
    for (; is_digit(*s); s++) {
        bool room = *mantissa < UINT64_MAX / 10 - 1;
        if (room)
            *mantissa = *mantissa * 10 + (uint64_t)(*s - '0');
        if (room == fraction && *exponent > -100000 && *exponent < 100000)
            *exponent += fraction ? -1 : 1;
        ++*n;
    }
    return s;
}

/* v * 10^exponent; one rounding when |exponent| is at most 22. */
static double scale(double v, int exponent)
{
    static const double small[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    exponent = exponent > 400 ? 400 : exponent < -400 ? -400 : exponent;
    for (; exponent > 22; exponent -= 22)
        v *= 1e22;
    for (; exponent < -22; exponent += 22)
        v /= 1e22;
    return exponent < 0 ? v / small[-exponent] : v * small[exponent];
}

bool number_real(const char *text, double *out)
{
    uint64_t mantissa = 0, power = 0;
    int exponent = 0, n = 0, n_power = 0, unused = 0;
    bool minus = *text == '-';
    const char *s = digits(text + minus, &mantissa, &exponent, false, &n);
    if (*s == '.')
        s = digits(s + 1, &mantissa, &exponent, true, &n);
    if (!n)
        return false;
    if (*s == 'e' || *s == 'E') {
        bool down = *++s == '-';
        s = digits(s + (*s == '-' || *s == '+'), &power, &unused, false, &n_power);
        if (!n_power)
            return false;
        int p = power > 100000 ? 100000 : (int)power;
        exponent += down ? -p : p;
    }
    if (*s)
        return false;
    double v = mantissa ? scale((double)mantissa, exponent) : 0;
    if (v > 1.7976931348623157e308)
        return false;
    *out = minus ? -v : v;
    return true;
}

const char *number_bytes(uint64_t bytes, char *buffer, size_t n)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double v = (double)bytes;
    for (; v >= 1024; unit++) /* 2^64 is 16 EiB */
        v /= 1024;
    snprintf(buffer, n, unit ? "%.1f %s" : "%.0f %s", v, units[unit]);
    return buffer;
}

const char *number_seconds(double seconds, char *buffer, size_t n)
{
    if (seconds < 1)
        snprintf(buffer, n, "%.1fms", seconds * 1e3);
    else if (seconds < 60)
        snprintf(buffer, n, "%.3fs", seconds);
    else
        snprintf(buffer, n, "%.0fm%.1fs", (double)(uint64_t)(seconds / 60),
                 seconds - 60 * (double)(uint64_t)(seconds / 60));
    return buffer;
}

const char *number_grouped(uint64_t value, char *buffer, size_t n)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    size_t at = 0;
    for (size_t i = 0; i < length && at + 2 < n; i++) {
        if (i && (length - i) % 3 == 0)
            buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = 0;
    return buffer;
}
