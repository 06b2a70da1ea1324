/* look: the program that looks inside a model while it reads a text. Options in, one job done, an
 * exit code out; the jobs are in the other files of this folder. It is a client of tern.h and
 * tern_lab.h like any other. */
#include "app/cli/finish.h"
#include "app/cli/out.h"
#include "app/cli/team.h"
#include "app/look/atlas.h"
#include "app/look/before_after.h"
#include "app/look/capture.h"
#include "app/look/compare.h"
#include "app/look/edits.h"
#include "app/look/head_ranks.h"
#include "app/look/logit_lens.h"
#include "app/look/look_options.h"
#include "app/look/subject.h"
#include "app/look/surprise.h"
#include "app/look/timeline_view.h"
#include "app/look/tour.h"
#include "app/look/why.h"

#include <string.h>

static enum tern_status do_job(struct subject *s, struct tern_error *e)
{
    switch (s->o->job) {
    case LOOK_CAPTURE:
        return (s->o->value[LOOK_LINES].given ? capture_lines : capture_text)(s, e);
    case LOOK_TIMELINE:
        return timeline_view_show(s, e);
    case LOOK_TOUR:
        return tour_write(s, e);
    case LOOK_LENS:
        return logit_lens_show(s, e);
    case LOOK_WHY:
        return why_show(s, e);
    case LOOK_COMPARE:
        return compare_show(s, e);
    case LOOK_SURPRISE:
        return surprise_show(s, e);
    default:
        return edits_are_wanted(s->o) && !s->o->value[LOOK_HEAD].given ? before_after_show(s, e)
                                                                       : atlas_show(s, e);
    }
}

/* The job, in a model that is changed as the options say */
static enum tern_status do_edited(struct subject *s, struct tern_error *e)
{
    struct edits edits = {0};
    if (s->o->job == LOOK_COMPARE || head_ranks_are_wanted(s->o))
        return parser_usage(e, "%s",
                            s->o->job == LOOK_COMPARE
                                ? "--compare compares files as they are: no --ablate, "
                                  "--patch or --steer"
                                : "--ablate each works alone");
    enum tern_status status = edits_open(&edits, s, e);
    if (!status) {
        s->edit = edits_apply, s->edit_arg = &edits;
        status = do_job(s, e);
    }
    edits_close(&edits);
    return status;
}

/* --ablate each, and nothing else that is a job or an edit */
static bool ranks_heads(const struct look_options *o)
{
    const struct option_value *v = o->value;
    return o->job == N_LOOK_OPTIONS && head_ranks_are_wanted(o) && !v[LOOK_PATCH].given &&
           !v[LOOK_STEER].given && !v[LOOK_STEER_TO].given;
}

static enum tern_status look(const struct look_options *o, struct tern_error *e)
{
    struct subject subject;
    if (o->job == LOOK_HELP) {
        look_options_help();
        return TERN_OK;
    }
    if (o->job == LOOK_VERSION) {
        out_print("look (tern) %s\n%s\n", tern_version(), tern_build_info());
        return TERN_OK;
    }
    enum tern_status s = subject_open(&subject, o, e);
    if (!s)
        s = ranks_heads(o)        ? head_ranks_show(&subject, e)
            : edits_are_wanted(o) ? do_edited(&subject, e)
                                  : do_job(&subject, e);
    subject_close(&subject);
    return s;
}

int main(int argc, char **argv)
{
    struct look_options o;
    struct tern_error e = {0};
    out_init();
    enum tern_status s = team_refuse("look", &e);
    if (!s)
        s = look_options_open(&o, argc, argv, &e);
    if (!s)
        s = look(&o, &e);
    return finish_program("look", s, &e);
}
