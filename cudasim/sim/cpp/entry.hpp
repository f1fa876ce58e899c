/* What Python has to know of a compiled kernel: the types of its parameters, of structs' members and of
 * variables in device memory. cudasim/live/compiling.py writes code that asks the compiler.
 *
 * nvcc compiles this file as well, so it uses nothing of the simulator. */
#pragma once
#include <stddef.h>
#include <type_traits>

#define SIM_EXPORT extern "C" __attribute__((visibility("default")))

struct sim_described {
    const char *name; /* ends in "T = <the type>]" */
    char kind; /* b bool, i signed, u unsigned, f float, p pointer, a array, v void, s struct, x other */
    unsigned long long size, alignment;
    const sim_described *item; /* of a pointer or an array */
};

template <class T> const char *sim_name() {
    return __PRETTY_FUNCTION__;
}

template <class T, class = void> struct sim_description {
    static const sim_described *get() {
        constexpr bool is_struct = std::is_class<T>::value || std::is_union<T>::value;
        static const sim_described described = {sim_name<T>(), is_struct ? 's' : 'x', sizeof(T), alignof(T),
                                                0};
        return &described;
    }
};
template <class T>
struct sim_description<T, std::enable_if_t<std::is_arithmetic<T>::value || std::is_enum<T>::value>> {
    static const sim_described *get() {
        static const sim_described described = {sim_name<T>(), T(-1) < T(0) ? 'i' : 'u', sizeof(T),
                                                alignof(T), 0};
        static const sim_described real = {sim_name<T>(), std::is_same<T, bool>::value ? 'b' : 'f', sizeof(T),
                                           alignof(T), 0};
        return std::is_floating_point<T>::value || std::is_same<T, bool>::value ? &real : &described;
    }
};
template <> struct sim_description<void> {
    static const sim_described *get() {
        static const sim_described described = {"T = void]", 'v', 0, 0, 0};
        return &described;
    }
};
template <class R, class... A> struct sim_description<R(A...)> {
    static const sim_described *get() {
        static const sim_described described = {"T = function]", 'x', 0, 0, 0};
        return &described;
    }
};
template <class T> struct sim_description<T *> {
    static const sim_described *get() {
        static const sim_described described = {sim_name<T *>(), 'p', sizeof(T *), alignof(T *),
                                                sim_description<std::remove_cv_t<T>>::get()};
        return &described;
    }
};
template <class T> struct sim_description<T *__restrict__> : sim_description<T *> {}; /* of a member */
template <class T, size_t count> struct sim_description<T[count]> {
    static const sim_described *get() {
        static const sim_described described = {sim_name<T[count]>(), 'a', sizeof(T[count]), alignof(T),
                                                sim_description<std::remove_cv_t<T>>::get()};
        return &described;
    }
};
template <class T> const sim_described *sim_describe() {
    return sim_description<std::remove_cv_t<T>>::get();
}

/* A parameter of a kernel, a member of a struct, or a variable in device memory. */
struct sim_named {
    const char *name; /* NULL ends a list, and of parameters the text has the names */
    const sim_described *type;
    unsigned long long offset; /* of a member */
    void *address;             /* of a variable */
};

template <class... A> const sim_named *sim_parameters(void (*)(A...)) {
    static const sim_named parameters[] = {{"", sim_describe<A>(), 0, 0}..., {0, 0, 0, 0}};
    return parameters;
}
