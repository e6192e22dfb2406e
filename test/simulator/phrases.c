/*
 * phrases.c
 *		Sentences, hashtags and names.  Characters of one to four bytes, and what JSON
 *		and COPY have to escape, are among them.
 */
#include "phrases.h"

#include "util.h"

#define PHRASES(...) \
	{(const char *const[]) {__VA_ARGS__}, COUNT(((const char *const[]) {__VA_ARGS__}))}

const Language languages[LANGUAGES] = {
	{
		"en", " ",
		PHRASES("Good morning from the harbour.", "The heron is back in the garden.",
				"I finally finished the bookshelf.", "The night train was late again.",
				"Today I learned how a B-tree splits its pages.", "First frost of the year ❄️",
				"We baked bread with the neighbours.", "My cat has found the warmest place of the house. 🐈",
				"Does anybody know a good book about bees?", "Our choir sings on Sunday.",
				"Coffee first, everything else after that. ☕", "The library opens an hour earlier now.",
				"I have moved my blog, and all the links still work.", "Rain, rain, rain.",
				"\"Almost done\", I said three hours ago.", "The market was full of pumpkins.",
				"A small talk about indexes went better than I thought.", "New shoes, same old hill."),
		PHRASES("More tomorrow.", "What do you think?", "I am so happy. 🎉", "It took all day.",
				"Who is coming?", "Nobody believed me.", "I would do it again.", "Pictures follow.",
				"The children loved it.", "100% worth it.", "Now I need some sleep.", "And then it began to snow."),
		PHRASES("I agree.", "Thank you for this!", "Really? I did not know that.", "Congratulations! 🎉",
				"The same here.", "Where is that?", "That made my day. ❤️", "I am not so sure.",
				"Tell us more!", "See you there.", "Ha!", "We should meet."),
		PHRASES("gardening", "databases", "cats", "coffee", "photography", "books", "trains", "baking",
				"birds", "atproto", "music", "PostgreSQL")
	},
	{
		"de", " ",
		PHRASES("Guten Morgen aus dem Zug.", "Der Reiher steht wieder im Garten.",
				"Heute gab es Äpfel, Äpfel und noch mehr Äpfel.", "Das Regal ist endlich fertig.",
				"Die Straße vor dem Haus ist gesperrt.", "Wer hat Lust auf Schach?",
				"Unser Chor übt für Sonntag.", "Der erste Schnee ❄️", "Neues Rezept für Käsekuchen!",
				"Mein Fahrrad hat jetzt ein Licht."),
		PHRASES("Morgen mehr.", "Was meint ihr?", "Das war schön.", "Es hat den ganzen Tag gedauert.",
				"Bilder folgen.", "Wer kommt mit?", "Jetzt gibt es Tee. 🫖"),
		PHRASES("Das stimmt.", "Vielen Dank!", "Glückwunsch! 🎉", "Wo ist das denn?", "Bei uns auch.",
				"Das wusste ich nicht.", "Schön gesagt."),
		PHRASES("Garten", "Küche", "Bücher", "Bahn", "Fußball", "atproto", "Vögel")
	},
	{
		"pt", " ",
		PHRASES("Bom dia, gente!", "O café de hoje está ótimo. ☕", "Finalmente terminei o livro.",
				"A praia estava vazia esta manhã.", "Choveu a noite inteira.", "Alguém conhece um bom filme?",
				"Meu gato não quer sair da cama. 🐈", "Fiz pão de queijo para todo mundo."),
		PHRASES("Amanhã tem mais.", "O que vocês acham?", "Estou muito feliz.", "Que saudade!",
				"Quem vem?", "Valeu a pena."),
		PHRASES("Concordo.", "Obrigada!", "Parabéns! 🎉", "Que lindo ❤️", "Onde fica?", "Também acho."),
		PHRASES("música", "futebol", "café", "livros", "gatos", "fotografia")
	},
	{
		"es", " ",
		PHRASES("¡Buenos días!", "Hoy aprendí algo sobre índices.", "El tren llegó tarde otra vez.",
				"Mañana toca el coro del barrio.", "¿Alguien sabe de un buen libro?",
				"Los niños encontraron un erizo en el jardín. 🦔", "Hice pan con los vecinos.",
				"La montaña está llena de nieve."),
		PHRASES("Mañana más.", "¿Qué os parece?", "Estoy feliz.", "¿Quién viene?", "Ha sido un día largo.",
				"Lo haría otra vez."),
		PHRASES("Estoy de acuerdo.", "¡Gracias!", "¡Enhorabuena! 🎉", "No lo sabía.", "¿Dónde es?", "A mí también."),
		PHRASES("jardín", "música", "fútbol", "libros", "España", "cocina")
	},
	{
		"fr", " ",
		PHRASES("Bonjour à tous.", "Le héron est revenu au jardin.", "J’ai enfin terminé l’étagère.",
				"Le marché était plein de couleurs.", "Qui connaît un bon livre sur les abeilles ?",
				"Première neige de l’année ❄️", "Le train a encore du retard.", "Un café, et ça repart. ☕"),
		PHRASES("La suite demain.", "Qu’en pensez-vous ?", "Je suis ravie.", "Quelle journée !",
				"Qui vient ?", "Les enfants ont adoré."),
		PHRASES("Tout à fait.", "Merci beaucoup !", "Bravo ! 🎉", "Je ne savais pas.", "C’est où ?", "Moi aussi."),
		PHRASES("jardin", "cuisine", "livres", "forêt", "musique", "vélo")
	},
	{
		"ja", "",
		PHRASES("おはようございます。", "今日はとても寒いですね。", "庭にサギが来ました。",
				"新しい本を読み終わりました。", "猫が一番暖かい場所を見つけた。🐈", "電車がまた遅れています。",
				"初雪です❄️", "近所の人とパンを焼きました。"),
		PHRASES("また明日。", "どう思いますか？", "とても嬉しいです。", "写真は後で。", "誰か来ますか？",
				"長い一日でした。"),
		PHRASES("そうですね。", "ありがとうございます！", "おめでとう🎉", "知りませんでした。", "どこですか？", "私もです。"),
		PHRASES("写真", "日本", "猫", "読書", "コーヒー", "音楽")
	}
};

const Phrases pictures = PHRASES("A heron between reeds", "Bread on a wooden table", "A cat asleep on a radiator",
								 "The harbour in fog", "Ein Regal voller Bücher", "朝の富士山", "Um gato preto",
								 "Page 42 of a notebook, with a drawing of a B-tree", "");

const Phrases first_names = PHRASES("Ada", "Amir", "Anna", "Ben", "Carla", "Chidi", "Dara", "Elif", "Emil", "Femi",
									"Grace", "Hana", "Ines", "Ivan", "Jonas", "Kaito", "Lena", "Luis", "Maya", "Mila",
									"Nils", "Noor", "Olga", "Omar", "Pia", "Ravi", "Rosa", "Sam", "Tara", "Uma",
									"Yuki", "Zoe");

const Phrases last_names = PHRASES("Acker", "Berg", "Costa", "Diallo", "Eker", "Fischer", "Garcia", "Hall", "Ito",
								   "Jansen", "Kaya", "Lima", "Moreau", "Novak", "Okafor", "Park", "Quinn", "Rossi",
								   "Sato", "Tanaka", "Usman", "Vega", "Weber", "Young", "Zhang");
