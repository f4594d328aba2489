//! What the pages of the course say beside the course.

use seckill::texts;

texts! {
    /// The texts around a chapter.
    CourseTexts {
        course: "The course", "教程";
        contents: "Contents", "目录";
        index: "The ladder", "阶梯目录";
        beside: "Beside the rungs", "各级之外";
        number: "rung {number} of {all}", "第 {number} 级，共 {all} 级";
        play_rung: "Play this rung", "演这一级";
        play: "Play this:", "演一遍：";
        play_in_terminal: "Play this in a terminal:", "在终端里演一遍：";
        copy: "Copy", "复制";
        copied: "Copied", "已复制";
        diagram: "Sequence diagram of {name}", "{name} 的时序图";
        table: "Table", "表格";
        source: "The whole file", "完整的源文件";
        previous: "Previous rung", "上一级";
        next: "Next rung", "下一级";
    }
}
