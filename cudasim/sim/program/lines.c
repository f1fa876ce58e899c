/* The source line of an instruction, while a program runs: what it reports in the end has Python's
 * (cudasim/counting/places.py). addr2line reads it from debugging information. */
#define _GNU_SOURCE
#include "program.h"
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Headers stand for the line that includes their function; addr2line says "?" of what it does not know. */
static bool is_of_program(const char *said) {
    const char *number = strrchr(said, ':');
    return number && number[1] >= '1' && number[1] <= '9' && !strstr(said, "/cudasim/sim/") &&
           !strstr(said, "/include/c++/") && !strstr(said, "/include/cccl/") &&
           strncmp(said, "/usr/include/", 13) != 0 && strncmp(said, "/usr/lib/", 9) != 0;
}

static FILE *asked(const char *program, const char *offset, pid_t *child) {
    extern char **environ;
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) || posix_spawn_file_actions_init(&actions))
        return NULL;
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    char *const call[] = {"addr2line", "-i", "-e", (char *)program, (char *)offset, NULL};
    int failed = posix_spawnp(child, call[0], &actions, NULL, call, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *file = failed ? NULL : fdopen(ends[0], "r");
    if (!file)
        close(ends[0]);
    return file;
}

const char *sim_program_file(const char *name) {
    static char executable[4096];
    if (*name != '/' && !*executable && readlink("/proc/self/exe", executable, sizeof executable - 1) < 0)
        *executable = 0;
    return *name != '/' && *executable ? executable : name; /* its name may be one in a folder of $PATH */
}

bool sim_program_line_of(const void *address, char *text, size_t room) {
    Dl_info of, of_program;
    char line[4096], offset[32], here[4096];
    /* Other libraries may have debugging information as well. */
    if (!dladdr(address, &of) || !dladdr(sim_program_address, &of_program) ||
        of.dli_fbase != of_program.dli_fbase)
        return false;
    const char *program = sim_program_file(of.dli_fname);
    snprintf(offset, sizeof offset, "%#lx",
             (unsigned long)((uintptr_t)address - 1 - (uintptr_t)of.dli_fbase));
    pid_t child;
    FILE *said = asked(program, offset, &child);
    bool found = false;
    while (said && fgets(line, sizeof line, said))
        if (!found && is_of_program(line)) {
            line[strcspn(line, " \n")] = 0; /* addr2line's words behind the number */
            const char *file = line;
            size_t before = getcwd(here, sizeof here) ? strlen(here) : 0;
            if (before && strncmp(file, here, before) == 0 && file[before] == '/')
                file += before + 1;
            while (strncmp(file, "./", 2) == 0)
                file += 2;
            snprintf(text, room, "%s", file);
            found = true;
        }
    if (said) {
        fclose(said);
        waitpid(child, NULL, 0);
    }
    return found;
}
