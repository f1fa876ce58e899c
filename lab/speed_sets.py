"""The repositories of lab/speed.py by the set that they were drawn in."""

# Repositories that the model had not seen when it predicted them, on any GPU; all others were seen by then.
BLIND = (
    "m2papierz/pmpp",
    "CoffeeBeforeArch/cuda_programming",
    "NVIDIA-developer-blog/code-samples",
    "AyakaGEMM/Hands-on-GEMM",
    "BBuf/how-to-optim-algorithm-in-cuda",
    "Infatoshi/cuda-course",
    "Maharshi-Pandya/cudacodes",
    "NVIDIA/cuda-samples",
    "PaddleJitLab/CUDATutorial",
    "R100001/Programming-Massively-Parallel-Processors",
    "RussWong/CUDATutorial",
    "SzymonOzog/GPU_Programming",
    "brucefan1983/CUDA-Programming",
    "csc-training/CUDA",
    "deeperlearning/professional-cuda-c-programming",
    "gpu-mode/lectures",
    "harrism/mini-nbody",
    "ifromeast/cuda_learning",
    "mark-poscablo/gpu-prefix-sum",
    "nicolaswilde/cuda-sgemm",
    "olcf/cuda-training-series",
    "tgautam03/CUDA-C",
    "umfranzw/cuda-reduction-example",
    "wangzyon/NVIDIA_SGEMM_PRACTICE",
    "yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs",
)
# The same of the model that has learned from those of BLIND.
ANEW = (
    "1am9trash/CUDA_SGEMM",
    "CranberryYan/CUDA-Optimization",
    "Huanghongru/SGEMM-Implementation-and-Optimization",
    "LessUp/sgemm-optimization",
    "VVinstonSmith/Optimize-basic-CUDA-kernels",
    "chiendb97/cuda-practice",
    "chongchen1999/cuda-kernels",
    "gau-nernst/learn-cuda",
    "jarnesino/cuda-reduction-optimization",
    "junstar92/cuda-kernel-study",
    "philipfabianek/cuda-gemm-from-scratch",
    "satidev/pmpp_cuda",
    "tspeterkim/cuda-matmult",
    "w4096/cuda-100",
)
# Whose histograms, gathers and inlined functions showed the next mistakes.
THIRD = (
    "Enjia/CUDA-Kernel-Cases-of-Optimization-Techniques-for-GPU-Programming",
    "MK4H/cuda-histogram",
    "SMShovan/CUDA-SpMV-Optimizations",
    "baltikaa9/nbody-cuda-benchmark",
    "jvnguyen/cuda-image-kernels",
    "namespacemarcus/CUDA-Practice",
    "zixuanweeei/cuda-reduce",
)
# Most of them products of matrices.
FOURTH = (
    "bhaiyaadityasinha/cuda-matmul",
    "hgl71964/gpu-kernels",
    "jayden1711/cuda-matmul",
    "LixiangHan/cuda-matmul",
    "nweston/cuda-blur",
    "Parth-Badgujar/gpu-kernels",
    "RookieLiao/cuda-reduce-example",
    "s-samchenko/cuda-matmul",
    "shaswat-singh23/cuda-matmul",
    "stefanind/CUDA-SGEMM",
    "tabiszs/cuda-reduce-many",
    "wongzeonkei/cuda-sgemm-optimization",
)
# Two thirds of whose ladders are none.
FIFTH = (
    "40623128/Cuda-Practice",
    "annanyapr/Fast-CUDA-Kernels",
    "debnath2109/Cuda-Optimization-Studies",
    "DongDongBan/cuda-practice",
    "ericzhng/cuda-reduce-gpu-test",
    "HenriqueAssumpcao/CUDA-Kernels",
    "iuliet716/flash-attention-cuda-from-scratch",
    "mg200/cuda-kernels",
    "RazorCrest00/cuda-kernels",
    "soulsheng/CUDA-Practice",
    "tamerfrombk/cuda-practice",
    "vivekjoshi556/cuda-practice",
    "Yash-Desh/CUDA-Practice",
)
# At most four ladders of any problem but sums, of which there are five.
SIXTH = (
    "buwf2002/learning-cuda",
    "byrzhm/cuda-examples",
    "CedricYin/gpu-optimization",
    "chih-chun-chang/learning-cuda-from-scratch",
    "Dipak22/CUDA-Programming",
    "jose-perales/jhu-gpu-programming",
    "LinLinHua/CUDA-GEMM-Kernel-Optimization",
    "luatil/100-days-of-cuda",
    "Ningsir/cuda-programming",
    "ptal/gpu-programming-uni.lu",
    "Skye-Zhu/560lab3-CUDA-Program",
    "SMShovan/CUDA-Kernel-Optimization",
    "stevewuwen/learn-cuda",
    "sunjiabin17/cuda-example",
    "sylvia-ymlin/CUDA-Kernel-Optimization",
    "zeroRains/CUDA-kernel-optimization-demo",
    "Zlatanwic/Paged-KV-Cache-CUDA-Kernel-Optimization-for-LLM-Decoding",
)
# At most three ladders of any problem but products and sums.
SEVENTH = (
    "arisdask/BitonicSortCUDA",
    "arvindsaik/CUDA-Playground",
    "gnepgnep/cuda-playground",
    "huicongyao/PMPP",
    "Juanxpeke/CUDA-Study",
    "khzhao/cuda-gemm-practice",
    "Ruihan11/cuda-playground",
    "so298/cuda-gemm-optimization-practice",
    "strategist614/cuda-operator",
    "thimotyb/cuda-course",
    "valentinho02/cuda-gemm-optim",
)
# All of whose ladders have three versions or more.
EIGHTH = (
    "aowuFFFF/PracticeOperators",
    "Atopos0313/cuda_learning",
    "bluebread/cuda_lab",
    "colawithsauce/ECE408_Exercises",
    "felicityin/cudaw",
    "Greedy-cy/orin-cuda-operator-library",
    "huicongyao/KernelPractices",
    "jeffaa729/cuda_kernel_benchmark",
    "JessieJ2001/cuda-practice",
    "kkysen/cuda",
    "naveenaproop/CUDA",
    "qescccczmr/kernel_cuda",
)
# Half of whose files are named by the version.
NINTH = (
    "1shinham1/CUDA_matmul_opt",
    "a3102a123/PP_HW5",
    "cmybiubiu/367a4",
    "codcordance/add_kernel",
    "Dam-Sam/CUDA-image-filter",
    "dawud-shakir/GPU",
    "dimos1234/CUDA-2D-Convolution",
    "Disruptiive/Ising-Model",
    "edy2310/cuda-softmax-model",
    "emily-palaska/CellularAutomaton",
    "EricccYang/cuda_operators",
    "GGgary666/KMenas-GPU",
    "jstNik/CUDAProject",
    "monish-rgb/CUDA-Development",
    "MusabKucuk/Cardiac-Electrophysiology-Simulation",
    "qinlang3/LaplacianFilter",
    "s16-eecs221/HW3",
    "siddhantm27/sysml-matmul",
    "styltsou/ising_model_cuda",
    "tim00631/Mandelbrot-with-CUDA",
    "zben777/warp-candidate-filter",
)
# From where the ninth ended: the rest of its list of files, then its words.
TENTH = (
    "1301f17/CUDA_image_filtering",
    "AbdulrahmanA81/CudaPractice",
    "aluesss/Parallel-Programing",
    "BasselFakhry/Needleman-Wunsch_Algorithm_Implementation_for_GPU",
    "DaeyangCho/cuda-ops-from-scratch",
    "doombeaker/cuda-profiling-lab",
    "henrywoo/mastering-cuda-in-one-week-dev",
    "JeanJulesBigeard/cuda-mode",
    "JustQJ/cuda-mode-learn",
    "karta134033/CUDA_programming",
    "RuixiangMa/gpu-performance-optimization",
    "ThinamXx/cuda-mode",
    "TyPetrochko/cpsc524-assign6",
    "yuxin212/gpu-hw4",
    "zilinch/100-day-CUDA-challenge",
)
# From where the tenth ended, in the same order of its words' repositories.
ELEVENTH = (
    "ayush-os/gpu-perf-lab",
    "hpc-developer/gpu-performance-optimization-cookbook",
    "hwang2006/CUDA-Accelerated-Computing",
    "JiaxinLu98/CUDA-Challenge",
    "kimwoonggon/CUDA-Challenge",
    "mlwong/CME213-CUDA-Project",
    "RohitNagraj/CUDA-Challenge",
    "toastts/nv-kernel-benchmarks",
    "yanght27/GPU-Perf-Playground",
    "yiyanGuo/CUDA-kernel-bench",
)
SETS = {
    "blind eleventh": ELEVENTH,
    "blind tenth": TENTH,
    "blind ninth": NINTH,
    "blind eighth": EIGHTH,
    "blind seventh": SEVENTH,
    "blind sixth": SIXTH,
    "blind fifth": FIFTH,
    "blind fourth": FOURTH,
    "blind third": THIRD,
    "blind anew": ANEW,
    "blind": BLIND,
}


def set_of(repository: str) -> str:
    return next((name for name, names in SETS.items() if repository in names), "seen")
