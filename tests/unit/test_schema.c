/* ldflags: -Wl,@tests/support/allocs.ld */
/* Schemas, by what their shapes accept: instances that are valid, instances that are not. The refusals,
 * what must not take long, and every allocation failing. */
#include "allocs.h"
#include "sample/schema/schema.h"
#include "shape_check.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct budget budget(void)
{
    return (struct budget){.bytes = 4 << 20, .steps = 10000000};
}

/* Instances stand one a line. */
static const struct {
    const char *schema, *valid, *invalid;
} accepted[] = {
    {"true", "null\n1\n\"\"\n[]\n{}", ""},
    {"{\"type\":[\"integer\",\"null\"]}", "null\n1\n-3\n0\n43\n9007199254740991\n-9007199254740991",
     "9007199254740992\n-9007199254740992\n12345678901234567890\n1.5\n\"1\"\ntrue\n-3.0\n43.0\n4."
     "3e1\n43e0\n43E0\n0.0"},
    {"{\"type\":\"integer\",\"minimum\":-7.5,\"maximum\":43}", "-7\n0\n43",
     "-8\n44\n43.0\n-7.0\n4e1"},
    {"{\"type\":\"integer\",\"multipleOf\":4}", "0\n-4\n44", "6\n44.0\n4e0"},
    {"{\"type\":\"integer\",\"multipleOf\":1.5}", "3\n-45", "1\n3.0\n1.5"},
    {"{\"type\":\"integer\",\"enum\":[1,2.0,3.5,4e1]}", "1\n2\n40", "1.0\n2.0\n3.5\n4e1"},
    {"{\"type\":\"integer\",\"not\":{\"const\":5}}", "4\n50", "5\n4.0"},
    {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\"}", "43",
     "43.0\n4.5"},
    {"{\"const\":43.0}", "43", "43.0\n4.3e1\n44"},
    {"{\"type\":\"number\"}", "43\n43.0\n4.3e1\n9999999999999999.12345678901234567E-99",
     "\"43\"\n10000000000000000\n0.123456789012345678\n1e100"},
    {"{\"type\":\"integer\",\"minimum\":5}", "5\n9007199254740991", "4\n9007199254740992"},
    {"{\"type\":\"integer\",\"maximum\":5}", "5\n-9007199254740991", "6\n-9007199254740992"},
    {"{\"minimum\":5}", "5.12345678901234567\n9007199254740991.0",
     "5.123456789012345678\n9007199254740991.5"},
    {"{\"multipleOf\":0.01}", "0.07\n-9007199254740990.99", "0.015\n9007199254740991.01"},
    /* bounds that are farther out */
    {"{\"type\":\"integer\",\"minimum\":-1e20,\"maximum\":1e20}",
     "100000000000000000000\n-99999999999999999999", "100000000000000000001"},
    {"{\"type\":\"integer\",\"minimum\":10000000000000000}",
     "10000000000000000\n999999999999999999", "9999999999999999\n1000000000000000000"},
    {"{\"type\":\"integer\",\"exclusiveMaximum\":-1e20}",
     "-100000000000000000001\n-9999999999999999999999",
     "-100000000000000000000\n1\n-10000000000000000000000"},
    {"{\"const\":1e20}", "100000000000000000000", "1"},
    {"{\"enum\":[0.1234567890123456789,98765432109876543210]}",
     "0.1234567890123456789\n98765432109876543210", "0.12345678901234567"},
    {"{\"minimum\":1e-20,\"maximum\":1.5e-20}", "0.000000000000000000015",
     "0.00000000000000000002\n0.00000000000000000001234"},
    {"{\"exclusiveMinimum\":0,\"exclusiveMaximum\":1e-20}", "0.000000000000000000001", "0"},
    /* beyond 64 digits */
    {"{\"const\":1e300}", "1e300", "1\n1e299\n1E300\n1.0e300"},
    {"{\"enum\":[1,1e300,-1e300,1e-300,0.1e1]}", "1\n1e300\n-1e300\n1e-300", "1e1\n0.1e1\n-1"},
    {"{\"type\":\"integer\",\"minimum\":1e300}", "1e300\n1.5e300\n2e307", "1\n9e299\n2e308"},
    {"{\"exclusiveMinimum\":1e300}", "1.1e300\n1e301", "1e300\n1.0e300"},
    {"{\"maximum\":-1e300}", "-1e300\n-1e308", "-9e299\n1"},
    {"{\"maximum\":1e400}", "1", "-9007199254740992"},
    {"{\"exclusiveMinimum\":0,\"maximum\":1e-300}", "1e-300\n5e-324", "0\n1.1e-300"},
    {"{\"multipleOf\":3,\"minimum\":1e300}", "3e300\n1.2e301", "1e300\n1.3e301"},
    {"{\"not\":{\"const\":1e100}}", "1\n\"\"", "10e99\n1e100"},
    {"{\"type\":\"number\",\"not\":{\"minimum\":1e100}}", "1", "10e99\n70e99"},
    {"{\"not\":{\"minimum\":1e100,\"multipleOf\":7}}", "1", "70e99"},
    {"{\"const\":{\"a\":[1e300]}}", "{\"a\":[1e300]}", "{\"a\":[1]}"},
    {"{\"exclusiveMinimum\":9007199254740991,\"multipleOf\":3e16}",
     "30000000000000000\n90000000000000000", "120000000000000000"},
    {"{\"enum\":[1,\"a\",{\"k\":[1,{}]},[false]]}", "1\n\"a\"\n{\"k\":[1,{}]}\n[false]",
     "2\n[0]\n{\"k\":[1]}\n{}\n{\"k\":[1,{}],\"l\":1}"},
    {"{\"not\":{\"enum\":[{\"a\":1},[2]]}}", "{}\n{\"a\":2}\n{\"a\":1,\"b\":1}\n[]\n[2,2]\n[3]",
     "{\"a\":1}\n[2]"},
    {"{\"minLength\":2,\"maxLength\":3}", "1\n\"ab\"\n\"\u00e4\u00e4\u00e4\"", "\"a\"\n\"abcd\""},
    {"{\"oneOf\":[{\"minLength\":2},{\"maxLength\":3}]}", "\"a\"\n\"abcd\"", "\"ab\"\n1"},
    {"{\"minimum\":1,\"exclusiveMaximum\":2,\"multipleOf\":0.25}", "1\n1.75\n\"x\"",
     "2\n0.75\n1.3"},
    {"{\"minimum\":1,\"exclusiveMinimum\":true}", "1.5", "1"},
    {"{\"not\":{\"type\":\"integer\",\"minimum\":3}}", "2\n3.5\n\"\"", "3\n4.0"},
    /* objects */
    {"{\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":[\"a\",\"b\"]}",
     "{\"a\":null,\"b\":1}\n{\"b\":1,\"a\":null,\"c\":1}\n1", "{\"a\":null}\n{\"a\":1,\"b\":1}"},
    {"{\"properties\":{\"a\":true},\"additionalProperties\":false}", "{}\n{\"a\":1}", "{\"b\":1}"},
    {"{\"properties\":{\"a\":false}}", "{}\n{\"b\":1}", "{\"a\":1}"},
    {"{\"patternProperties\":{\"^x\":{\"type\":\"number\"},\"y$\":{\"minimum\":3}},"
     "\"additionalProperties\":{\"type\":\"string\"}}",
     "{\"x\":1,\"y\":3,\"xy\":3,\"z\":\"\"}", "{\"x\":\"\"}\n{\"y\":1}\n{\"xy\":2}\n{\"z\":1}"},
    {"{\"propertyNames\":{\"maxLength\":1},\"minProperties\":1,\"maxProperties\":2}",
     "{\"a\":1}\n{\"a\":1,\"b\":1}", "{}\n{\"ab\":1}\n{\"a\":1,\"b\":1,\"c\":1}"},
    {"{\"not\":{\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"b\"]}}",
     "{}\n{\"a\":1,\"b\":1}", "1\n{\"b\":1}\n{\"a\":\"\",\"b\":1}"},
    {"{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"number\"}}}",
     "{\"a\":\"\"}\n{\"a\":1,\"b\":[]}", "{}\n{\"a\":1}"},
    {"{\"type\":\"object\",\"not\":{\"patternProperties\":{\"^a$\":{\"const\":1}}}}",
     "{\"a\":2}\n{\"b\":1,\"a\":2}", "{}\n{\"a\":1}\n{\"b\":2}"},
    {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"maxLength\":1}}}",
     "{\"ab\":1}\n{\"a\":1,\"bc\":1}", "{}\n{\"a\":1}"},
    {"{\"dependentRequired\":{\"a\":[\"b\"]},\"dependentSchemas\":{\"c\":{\"maxProperties\":1}}}",
     "{}\n{\"a\":1,\"b\":1}\n{\"c\":1}", "{\"a\":1}\n{\"c\":1,\"d\":1}"},
    {"{\"dependencies\":{\"a\":[\"b\"],\"c\":{\"required\":[\"d\"]}}}",
     "{\"b\":1}\n{\"c\":1,\"d\":1}", "{\"a\":1}\n{\"c\":1}"},
    {"{\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},\"then\":{\"required\":["
     "\"a\"]},"
     "\"else\":{\"required\":[\"b\"]}}",
     "{\"k\":1,\"a\":1}\n{\"k\":2,\"b\":1}\n{\"b\":1}", "{\"k\":1,\"b\":1}\n{\"k\":2,\"a\":1}\n{}"},
    {"{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]},{\"required\":[\"c\"]}]}",
     "{\"a\":1}\n{\"c\":1,\"d\":1}", "{}\n{\"a\":1,\"b\":1}\n{\"a\":1,\"b\":1,\"c\":1}"},
    /* arrays */
    {"{\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"number\"}],\"items\":{\"type\":\"string\"}"
     "}",
     "[]\n[null]\n[null,1,\"\",\"\"]\n{}", "[1]\n[null,null]\n[null,1,1]"},
    {"{\"items\":[{\"type\":\"null\"}],\"additionalItems\":false}", "[]\n[null]",
     "[1]\n[null,null]"},
    {"{\"type\":\"array\",\"minItems\":1,\"maxItems\":2}", "[1]\n[1,2]", "[]\n[1,2,3]"},
    {"{\"contains\":{\"type\":\"number\"},\"minContains\":2,\"maxContains\":3}",
     "[1,2]\n[\"\",1,2,3]", "[]\n[1]\n[1,2,3,4]"},
    {"{\"type\":\"array\",\"not\":{\"contains\":{\"type\":\"number\"}}}", "[]\n[\"\"]",
     "[1]\n[\"\",1]"},
    {"{\"type\":\"array\",\"not\":{\"items\":{\"type\":\"number\"}}}", "[\"\"]\n[1,\"\"]",
     "[]\n[1]"},
    {"{\"allOf\":[{\"contains\":{\"multipleOf\":2}},{\"contains\":{\"multipleOf\":3}}]}",
     "[6]\n[2,3]\n[\"\",4,9]", "[2]\n[3]\n[]"},
    {"{\"uniqueItems\":true,\"items\":{\"enum\":[1,2]}}", "[1,2]\n[2]", "[1,1]\n[1,1.0]"},
    /* references */
    {"{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":"
     "false}",
     "{\"next\":{\"next\":{}}}", "{\"next\":1}\n{\"next\":{\"x\":1}}"},
    {"{\"properties\":{\"a\":{\"$ref\":\"#n\"},\"b\":{\"$ref\":\"http://x.y/z#/definitions/m\"}},"
     "\"id\":\"http://x.y/z\",\"definitions\":{\"m\":{\"id\":\"#n\",\"type\":\"null\"}}}",
     "{\"a\":null}\n{\"b\":null}", "{\"a\":1}\n{\"b\":1}"},
    {"{\"$defs\":{\"a/b~%\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a~1b~0%25\"}", "null", "1"},
    {"{\"$id\":\"http://x.y/a/"
     "b\",\"$ref\":\"c#d\",\"$defs\":{\"c\":{\"$id\":\"c\",\"$defs\":{\"d\":"
     "{\"$anchor\":\"d\",\"type\":\"null\"}}}}}",
     "null", "1"},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"#/definitions/"
     "n\",\"minimum\":3,"
     "\"definitions\":{\"n\":{\"type\":\"number\"}}}",
     "1", "\"\""},
    {"{\"$id\":\"http://x.y/"
     "tree\",\"$dynamicAnchor\":\"node\",\"$ref\":\"base\",\"required\":[\"x\"],"
     "\"$defs\":{\"base\":{\"$id\":\"base\",\"$dynamicAnchor\":\"node\",\"properties\":"
     "{\"sub\":{\"$dynamicRef\":\"#node\"}}}}}",
     "{\"x\":1}\n{\"x\":1,\"sub\":{\"x\":1}}", "{}\n{\"x\":1,\"sub\":{}}"},
    /* what was not evaluated */
    {"{\"properties\":{\"a\":true},\"anyOf\":[{\"properties\":{\"b\":{\"type\":\"null\"}}},"
     "{\"required\":[\"c\"],\"properties\":{\"c\":true}}],\"unevaluatedProperties\":false}",
     "{\"a\":1}\n{\"b\":null}\n{\"c\":1}\n{\"a\":1,\"b\":null,\"c\":1}",
     "{\"d\":1}\n{\"b\":1}\n{\"b\":1,\"c\":1}"},
    {"{\"oneOf\":[{\"properties\":{\"a\":true},\"unevaluatedProperties\":false},{\"required\":["
     "\"b\"]}]}",
     "{}\n{\"a\":1}\n{\"b\":1}\n{\"a\":1,\"b\":1}", "{\"c\":1}"},
    {"{\"prefixItems\":[true],\"if\":{\"prefixItems\":[true,{\"const\":1}],\"minItems\":2},"
     "\"unevaluatedItems\":false}",
     "[]\n[2]\n[2,1]", "[2,2]\n[2,1,3]"},
    {"{\"contains\":{\"type\":\"null\"},\"unevaluatedItems\":{\"type\":\"number\"}}",
     "[null,1]\n[2,null]", "[1]\n[null,\"\"]"},
    {"{\"allOf\":[{\"not\":{\"type\":\"integer\"}}],\"unevaluatedItems\":false}", "[]\n{}",
     "[1]\n1"},
    {"{\"if\":{\"not\":{\"type\":\"integer\"}},\"unevaluatedProperties\":{}}", "{}\n{\"a\":1}", ""},
    {"{\"allOf\":[{\"not\":{\"not\":{\"properties\":{\"a\":true}}}}],\"unevaluatedProperties\":"
     "false}",
     "{}", "{\"a\":1}"},
};

static enum tern_status compile(struct shapes *s, const char *schema, struct budget *b,
                                struct tern_error *e)
{
    return schema_compile(s, schema, strlen(schema), 0, NULL, b, NULL, e);
}

/* Every line of `lines` is accepted, or none is. */
static void judge(const struct shapes *s, const char *schema, const char *lines, bool valid)
{
    for (const char *end; *lines; lines = *end ? end + 1 : end) {
        struct budget b = budget();
        struct json j;
        end = strchr(lines, '\n');
        end = end ? end : lines + strlen(lines);
        ck_assert(!json_read(&j, lines, (size_t)(end - lines), "instance", &b, NULL));
        ck_assert_msg(shape_check(s, s->root, &j, 0, true) == valid, "%s: %.*s", schema,
                      (int)(end - lines), lines);
        json_close(&j);
    }
}

START_TEST(accepts)
{
    struct budget b = budget(), before = b;
    struct tern_error e = {0};
    struct shapes s;
    ck_assert_msg(!compile(&s, accepted[_i].schema, &b, &e), "%s: %s", accepted[_i].schema, e.text);
    judge(&s, accepted[_i].schema, accepted[_i].valid, true);
    judge(&s, accepted[_i].schema, accepted[_i].invalid, false);
    shapes_free(&s);
    ck_assert_uint_eq(b.bytes, before.bytes);
}
END_TEST

START_TEST(order)
{
    static const char schema[] = "{\"required\":[\"z\",\"c\"],\"allOf\":[{\"$ref\":\"#/$defs/"
                                 "first\"}],\"properties\":{\"b\":true,"
                                 "\"a\":true},\"$defs\":{\"first\":{\"properties\":{\"c\":true}}}}";
    struct budget b = budget();
    struct shapes s;
    ck_assert(!compile(&s, schema, &b, NULL));
    const struct object_shape *o = &s.objects[s.nodes[s.root].objects.first];
    char keys[8] = "";
    for (uint32_t i = 0; i < o->members.n; i++)
        keys[i] = s.text[s.keys[s.members[o->members.first + i].key].at];
    ck_assert_str_eq(keys, "cbaz");
    shapes_free(&s);
}
END_TEST

static const struct {
    const char *schema, *why;
} refused[] = {
    {"[]", "schema: the schema at #: must be an object"},
    {"false", "schema: the schema at #: nothing is valid"},
    {"{\"$schema\":7}", "$schema at #: must be a string"},
    {"{\"type\":\"integer\",\"enum\":[\"a\"]}", "schema: enum at #: nothing is valid"},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":1025}", "minItems is above 1024"},
    {"{\"enum\":[1,1E400]}", "schema: enum at #: no number that is written here fits"},
    {"{\"properties\":{\"a\":{\"const\":1e-400}}}", "const at #/properties/a: no number that is"},
    {"{\"minimum\":1e309}", "minimum at #: no number that is written here fits"},
    {"{\"exclusiveMaximum\":-17976931348623157e292}", "exclusiveMaximum at #: no number that is"},
    {"{\"minimum\":1e10000}", "minimum at #: the number has more than 64 digits, or an exponent"},
    {"{\"multipleOf\":1e300}", "multipleOf at #: it must be positive, with at most 17 digits"},
    {"{\"multipleOf\":1e-300}", "multipleOf at #: it must be positive, with at most 17 digits"},
    {"{\"type\":\"number\",\"minimum\":1e301,\"maximum\":1e300}", "maximum at #: nothing is valid"},
    {"{\"type\":\"strin\"}", "type at #: there is no such type"},
    {"{\"properties\":{\"a/b\":{\"minLength\":-1}}}", "minLength at #/properties/a~1b: must be"},
    {"{\"$ref\":\"#\"}", "$ref at #: it leads back"},
    {"{\"anyOf\":[{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#\"}]}}}",
     "leads back"},
    {"{\"$ref\":\"#/$defs/none\"}", "there is no schema"},
    {"{\"$ref\":\"http://x.y/z\"}", "$ref at #: the document \"http://x.y/z\" is not here"},
    {"{\"$schema\":\"http://x.y/z\"}", "$schema at #"},
    {"{\"pattern\":\"(a)\\\\1\"}", "pattern at #"},
    {"{\"format\":\"idn-email\"}", "format at #"},
    {"{\"not\":{\"uniqueItems\":true}}", "uniqueItems at #/not"},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}",
     "schema: minLength at #: nothing is valid"},
    {"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#\"}}}",
     "schema: properties at #: nothing is valid"},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\"]},\"minProperties\":2}",
     "nothing is valid"},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1]},\"minItems\":2}",
     "nothing is valid"},
};

START_TEST(refuses)
{
    struct budget b = budget(), before = b;
    struct tern_error e = {0};
    struct shapes s;
    ck_assert_int_eq(compile(&s, refused[_i].schema, &b, &e), TERN_USAGE);
    ck_assert_msg(strstr(e.text, refused[_i].why), "%s: %s", refused[_i].schema, e.text);
    ck_assert_uint_eq(b.bytes, before.bytes);
}
END_TEST

START_TEST(lax)
{
    static const char schema[] = "{\"type\":\"string\",\"maxLength\":3,\"pattern\":\"(a)\\\\1\"}";
    struct budget b = budget();
    struct schema_notes notes = {0};
    struct tern_error e = {0};
    struct shapes s;
    ck_assert(!schema_compile(&s, schema, sizeof schema - 1, SCHEMA_LAX, NULL, &b, &notes, &e));
    ck_assert(strstr(notes.text, "pattern at #"));
    judge(&s, schema, "\"b\"", true);
    judge(&s, schema, "\"bbbb\"", false);
    shapes_free(&s);
    free(notes.text);
}
END_TEST

/* What is left out makes a schema wider, wherever it stands. `good` are values that the whole schema allows. */
static const struct {
    const char *schema, *good, *left;
} widened[] = {
    {"{\"type\":\"string\",\"not\":{\"pattern\":\"(?<=x)y\"}}", "\"a\"", "not at #:"},
    {"{\"type\":\"number\",\"not\":{\"minimum\":1e309}}", "1", "not at #:"},
    {"{\"type\":\"number\",\"minimum\":1e309,\"multipleOf\":1e300}", "1.5", NULL},
    {"{\"type\":\"string\",\"not\":{\"not\":{\"pattern\":\"(?<=x)y\"}}}", "\"xy\"", "not at #:"},
    {"{\"type\":\"string\",\"not\":{\"format\":\"idn-email\"}}", "\"a\"", "not at #:"},
    {"{\"not\":{\"$ref\":\"http://x.y/z\"}}", "1", "not at #:"},
    {"{\"if\":{\"pattern\":\"(?<=x)y\"},\"then\":{\"type\":\"integer\"}}", "\"a\"", "if at #:"},
    {"{\"if\":{\"type\":\"string\"},\"then\":{\"pattern\":\"(?<=x)y\"},\"else\":false}", "\"xy\"",
     NULL},
    {"{\"oneOf\":[{\"pattern\":\"(?<=x)y\"},{\"pattern\":\"^a\"}]}", "\"a\"", "oneOf at #:"},
    {"{\"items\":{\"not\":{\"$ref\":\"#/$defs/a\"}},\"contains\":{\"$ref\":\"#/$defs/a\"},"
     "\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"pattern\":\"(?<=x)y\"}]}}}",
     "[\"a\"]", "not at #/items:"},
    {"{\"contains\":{\"pattern\":\"(?<=x)y\"},\"maxContains\":1}", "[\"a\",\"b\"]",
     "contains at #:"},
    {"{\"patternProperties\":{\"(?<=x)y\":{\"type\":\"integer\"}},\"additionalProperties\":false}",
     "{\"xy\":1}", "additionalProperties at #:"},
    {"{\"patternProperties\":{\"(?<=x)y\":{\"type\":\"integer\"}}}", "{\"y\":\"a\"}",
     "patternProperties at #:"},
    {"{\"$ref\":\"http://x.y/z\",\"unevaluatedProperties\":false}", "{\"a\":1}",
     "unevaluatedProperties at #:"},
    {"{\"if\":{\"properties\":{\"a\":{\"pattern\":\"(?<=x)y\"}}},\"unevaluatedProperties\":false}",
     "{\"a\":\"xy\"}", "unevaluatedProperties at #:"},
    {"{\"not\":{\"not\":{\"$ref\":\"http://x.y/z\",\"unevaluatedItems\":false}}}", "[1]",
     "not at #:"},
};

START_TEST(lax_only_widens)
{
    struct budget b = budget(), before = b;
    struct schema_notes notes = {0};
    struct tern_error e = {0};
    struct shapes s;
    const char *schema = widened[_i].schema;
    ck_assert_msg(!schema_compile(&s, schema, strlen(schema), SCHEMA_LAX, NULL, &b, &notes, &e),
                  "%s: %s", schema, e.text);
    judge(&s, schema, widened[_i].good, true);
    bool listed = false, negated = false;
    for (size_t at = 0; at < notes.n; at += strlen(notes.text + at) + 1) {
        const char *place = widened[_i].left;
        listed |= place && strstr(notes.text + at, place) == notes.text + at + 8;
        negated |= strstr(notes.text + at, "it depends") != NULL;
    }
    ck_assert_msg(listed == negated && listed == (widened[_i].left != NULL), "%s", schema);
    shapes_free(&s);
    free(notes.text);
    ck_assert_uint_eq(b.bytes, before.bytes);
}
END_TEST

/* oneOf of many numbers takes steps in proportion to them; one that comes twice is not valid. */
START_TEST(one_of_many_numbers)
{
    static char text[1 << 20];
    enum { MANY = 10000 };
    for (int doubled = 0; doubled < 2; doubled++) {
        struct budget b = {.bytes = 64 << 20, .steps = doubled ? 5000000 : 2000000};
        struct tern_error e = {0};
        struct shapes s;
        int n = doubled ? 1000 : MANY, at = sprintf(text, "{\"oneOf\":[");
        for (int i = 0; i < n; i++)
            at += sprintf(text + at, "{\"enum\":[%d,%d.5]},", 7 * i, 7 * i + 1);
        sprintf(text + at, doubled ? "{\"minimum\":6995,\"type\":\"number\"},{\"const\":7}]}"
                                   : "{\"type\":\"null\"}]}");
        ck_assert_msg(!compile(&s, text, &b, &e), "%s", e.text);
        judge(&s, "oneOf of numbers", "0", true);
        judge(&s, "oneOf of numbers", "7", !doubled);
        judge(&s, "oneOf of numbers", "8.5", true);
        judge(&s, "oneOf of numbers", "9", false);
        judge(&s, "oneOf of numbers", "6986", true);
        judge(&s, "oneOf of numbers", "6993", true);
        judge(&s, "oneOf of numbers", "6994.5", true);
        judge(&s, "oneOf of numbers", "7000", true);
        judge(&s, "oneOf of numbers", "7001.25", doubled);
        shapes_free(&s);
    }
}
END_TEST

/* Small texts that would grow: each ends within few steps and little memory. */
START_TEST(bombs)
{
    static char text[1 << 20], part[128];
    static const char *const parts[] = {
        "{\"properties\":{\"p%d\":{\"type\":\"string\"}}}",
        "{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}",
        "{\"if\":{\"required\":[\"a%d\"]},\"then\":{\"required\":[\"b%d\"]}}",
        "{\"patternProperties\":{\"a%d\":{\"minLength\":%d}}}",
        "{\"multipleOf\":1.%d1}",
    };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        for (int one = 0; one < 2; one++) {
            struct budget b = {.bytes = 4 << 20, .steps = 2000000};
            struct shapes s;
            strcpy(text, one ? "{\"oneOf\":[true" : "{\"allOf\":[true");
            for (int i = 0; i < 40; i++) {
                snprintf(part, sizeof part, parts[k], i, i);
                strcat(strcat(text, ","), part);
            }
            strcat(text, "]}");
            if (!compile(&s, text, &b, NULL))
                shapes_free(&s);
            ck_assert_uint_eq(b.bytes, 4 << 20);
            ck_assert_uint_gt(b.steps, 0);
        }
}
END_TEST

/* With the allocation `at` failing, alone or with all behind it. */
static void compile_without(const char *schema, size_t at, int rest)
{
    struct budget b = budget();
    struct tern_error e = {0};
    struct shapes s;
    allocs_start(at, rest);
    enum tern_status status = compile(&s, schema, &b, &e);
    allocs_stop();
    if (!status)
        shapes_free(&s);
    else
        ck_assert_int_eq(status, TERN_NO_MEMORY);
    ck_assert_uint_eq(b.bytes, budget().bytes);
}

START_TEST(no_memory)
{
    const char *schema = accepted[_i].schema;
    allocs_start(0, 0);
    struct budget b = budget();
    struct shapes s;
    ck_assert(!compile(&s, schema, &b, NULL));
    size_t all = allocs_count();
    allocs_stop();
    shapes_free(&s);
    for (size_t at = 1; at <= all; at++)
        for (int rest = 0; rest < 2; rest++)
            compile_without(schema, at, rest);
}
END_TEST

SUITE("schema", LOOP(accepts, 0, sizeof accepted / sizeof *accepted), TEST(order),
      LOOP(refuses, 0, sizeof refused / sizeof *refused), TEST(lax),
      LOOP(lax_only_widens, 0, sizeof widened / sizeof *widened), TEST(one_of_many_numbers),
      TEST(bombs), LOOP(no_memory, 0, sizeof accepted / sizeof *accepted))
