/*
 * The threads of this process that are weft's, by their name.
 */
#ifndef TASKS_H
#define TASKS_H

#include "check.h"

#include <dirent.h>
#include <sys/types.h>

/* Ids of the threads that are weft's, or of those that are not; how many, at most `room`. */
static inline int tasks_of(int of_weft, pid_t *found, int room)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[300], comm[32] = "";
        FILE *file;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue; /* it has ended */
        if (fgets(comm, sizeof comm, file) == NULL)
            comm[0] = 0;
        fclose(file);
        if ((strcmp(comm, "weft\n") == 0) == of_weft && count < room)
            found[count++] = (pid_t)atoi(entry->d_name);
    }
    closedir(tasks);
    return count;
}

#endif
