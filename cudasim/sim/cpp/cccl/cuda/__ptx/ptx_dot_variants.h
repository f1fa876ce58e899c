/* Replaces the header of libcu++ with the names of scopes, spaces and orders in cuda::ptx, which are the
 * simulator's (../../../ptx_functions.hpp). */
#pragma once
