/* Functions of one form that the libraries have in numbers: to make something and to end it, to set a member
 * and to tell it, and to say how large a buffer another function takes. Each is an object, and its type says
 * what it does. S: the library's status, whose success is 0. */
#pragma once
#include <stddef.h>
#include <tuple>
#include <utility>

template <class S, class C> struct sim_creates {
    S operator()(C **of) const {
        return *of = new C(), S();
    }
};
template <class S, class C> struct sim_destroys {
    S operator()(const C *of) const {
        return delete of, S();
    }
};

template <class> struct sim_member;
template <class C, class M> struct sim_member<M C::*> {
    typedef C object;
    typedef M type;
};
template <auto member> using sim_class_of_member = typename sim_member<decltype(member)>::object;
template <auto member> using sim_type_of_member = typename sim_member<decltype(member)>::type;
template <class S, auto member, class C = sim_class_of_member<member>> struct sim_sets {
    S operator()(C *of, sim_type_of_member<member> value) const {
        return of->*member = value, S();
    }
};
template <class S, auto member, class C = sim_class_of_member<member>> struct sim_tells {
    S operator()(const C *of, sim_type_of_member<member> *value) const {
        return *value = of->*member, S();
    }
};

/* There is nothing to do here. */
template <class S, class... P> struct sim_ignores {
    S operator()(P...) const {
        return S();
    }
};
template <class S, class... P> constexpr sim_ignores<S, P...> sim_ignores_as(S (*)(P...)) {
    return {};
}

/* Nothing here needs a buffer; no program should take a size of 0 for one that it forgot. */
enum { SIM_BUFFER_BYTES = 256 };
template <class S, class... P> struct sim_asks_buffer {
    S operator()(P..., size_t *bytes) const {
        return *bytes = SIM_BUFFER_BYTES, S();
    }
};
/* Before a function that gets no buffer itself: the size of the one that its analysis gets, and this one. */
template <class S, class... P> constexpr sim_asks_buffer<S, P...> sim_asks_buffer_before(S (*)(P...)) {
    return {};
}
template <class S, class... P> constexpr sim_ignores<S, P..., void *> sim_ignores_before(S (*)(P...)) {
    return {};
}
template <class S, class... P, size_t... i>
constexpr auto sim_asks_last(S (*)(P...), std::index_sequence<i...>) {
    return sim_asks_buffer<S, std::tuple_element_t<i, std::tuple<P...>>...>();
}
/* Of a function whose last parameter is the buffer. */
template <class S, class... P> constexpr auto sim_asks_buffer_of(S (*function)(P...)) {
    return sim_asks_last(function, std::make_index_sequence<sizeof...(P) - 1>());
}
