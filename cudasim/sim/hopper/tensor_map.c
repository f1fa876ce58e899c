/* Encodes a tensor map: the host describes a tensor and a box of it. What TMA cannot address is refused. The
 * rules are those of cuTensorMapEncodeTiled() in the CUDA driver API. */
#include "tensor_map.h"
#include <stdbool.h>
#include <string.h>

unsigned sim_bytes_of_element(CUtensorMapDataType type) {
    switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
        return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
        return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
        return 8;
    default:
        return 4;
    }
}

static bool are_valid_dimensions(const CUtensorMap *map) {
    const uint64_t most_elements = 1ull << 32, most_stride = 1ull << 40;
    enum { MOST_BOX = 256, MOST_ELEMENT_STRIDE = 8, UNIT = 16 };
    for (unsigned i = 0; i < map->rank; i++) {
        if (map->size[i] == 0 || map->size[i] > most_elements || map->box[i] == 0 || map->box[i] > MOST_BOX ||
            map->element_stride[i] == 0 || map->element_stride[i] > MOST_ELEMENT_STRIDE)
            return false;
        if (i > 0 && (map->stride[i - 1] % UNIT != 0 || map->stride[i - 1] >= most_stride))
            return false;
    }
    unsigned row = map->box[0] * map->element_bytes; /* of the box, in shared memory */
    unsigned widest = map->swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? ~0u : 16u << map->swizzle;
    return map->tensor % UNIT == 0 && row % UNIT == 0 && row <= widest;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *tensor,
                                const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
    (void)promotion;
    if (rank < 1 || rank > SIM_MOST_DIMENSIONS || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    map->magic = SIM_TENSOR_MAP_MAGIC;
    map->type = (uint8_t)type;
    map->rank = (uint8_t)rank;
    map->swizzle = (uint8_t)swizzle;
    map->fills_with_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    map->tensor = (uintptr_t)tensor;
    map->element_bytes = (uint8_t)sim_bytes_of_element(type);
    for (unsigned i = 0; i < rank; i++) {
        map->size[i] = sizes[i];
        map->box[i] = (uint16_t)(box[i] <= UINT16_MAX ? box[i] : 0);
        map->element_stride[i] = (uint8_t)(element_strides[i] <= UINT8_MAX ? element_strides[i] : 0);
        if (i > 0)
            map->stride[i - 1] = strides[i - 1];
    }
    return are_valid_dimensions(map) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
