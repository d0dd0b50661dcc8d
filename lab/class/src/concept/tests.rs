use super::*;

/// Made-up answers, in a folder: nobody has given them. Learners know more or less, questions are more or less hard, and what a
/// course changes is known. `wrong_key` is a question in which those who know most choose another option.
fn made_up(learners: u64, wrong_key: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let workbook = Workbook::read().unwrap();
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / 2_147_483_648.0
    };
    for learner in 0..learners {
        let ability = 6.0 * random() - 3.0;
        let mut answers = Vec::new();
        for (when, learned) in [(When::Before, 0.0), (When::After, 2.0)] {
            let form = FORMS[usize::from((learner % 2 == 0) == (when == When::Before))];
            for (nth, question) in concept::form(&workbook.root, form).unwrap().iter().enumerate() {
                let hard = nth as f64 / 5.0 - 1.5;
                let sign = if nth == wrong_key { -1.0 } else { 1.0 };
                let knows = random() < 1.0 / (1.0 + f64::exp(sign * (hard - ability - learned)));
                let right = question.solution().chars().next().unwrap();
                let other = if right == 'A' { 'B' } else { 'A' };
                let answer = if knows { right } else { other };
                let seconds = 20 + nth as u64;
                answers.push(Answered { when, form, question: question.id.clone(), answer, seconds });
            }
        }
        let name = format!("{}{learner:016x}.tsv", concept::EXPORT);
        fs::write(folder.path().join(name), concept::export(&answers)).unwrap();
    }
    folder
}

fn report(folder: &Path) -> String {
    statistics(&Workbook::read().unwrap(), folder).unwrap()
}

#[test]
fn made_up_answers_show_what_was_put_into_them() {
    let folder = made_up(200, 14);
    let report = report(folder.path());
    let cells = |nth: usize| -> Vec<f64> {
        let line = report.lines().nth(nth + 1).unwrap().replace(" %", "");
        line.split_whitespace()
            .skip(1)
            .take(6)
            .map(|cell| cell.parse().unwrap_or_else(|_| panic!("{report}")))
            .collect()
    };
    let [easy, hard, wrong_key] = [0, 13, 14].map(cells);
    assert!(easy[0] > hard[0] + 20.0 && easy[1] > hard[1], "difficulty: {report}");
    assert!((0..14).all(|nth| cells(nth)[2] > 0.3), "gain: {report}");
    assert!((0..14).all(|nth| cells(nth)[3] > 0.2) && wrong_key[3] < 0.0, "discrimination: {report}");
    assert!((0..15).all(|nth| cells(nth)[4].abs() < 0.25), "forms: {report}");
    assert_eq!(hard[5], 33.0, "seconds: {report}");
    assert!(report.contains("200 exports, 200 of them with both halves."), "{report}");
}

#[test]
fn a_small_class_says_nothing_about_a_question() {
    let report = report(made_up(4, 14).path());
    let first: Vec<_> =
        report.lines().nth(1).unwrap().replace(" %", "").split_whitespace().map(str::to_owned).collect();
    assert_eq!(first[4..6], ["-", "-"], "{report}");
    assert!(
        report.contains("With 4 sheets after the course, nothing can be said about a single question"),
        "{report}"
    );
}

#[test]
fn an_export_that_is_none_is_an_error_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let workbook = Workbook::read().unwrap();
    let error = |what: &str| {
        let error = statistics(&workbook, folder.path()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    error("there are no exports in");
    let path = folder.path().join("x.tsv");
    fs::write(&path, "name\tage\n").unwrap();
    error("is no export of the concept test");
    let half =
        Answered { when: When::Before, form: 'a', question: "direct".to_owned(), answer: 'A', seconds: 3 };
    fs::write(&path, concept::export(&[half])).unwrap();
    error("1 answers before the course");
}
